//! What can go wrong, each in one sentence that says what to do about it.

use std::io;
use std::path::{Path, PathBuf};

/// Why the private server could not be found, made, started or stopped.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EmbeddedError {
    /// No PostgreSQL on this machine.
    #[error(
        "PostgreSQL is not installed on this machine: install it (on Debian `apt-get install \
         postgresql`), or set WEIR_PG_BIN to the folder that holds `initdb` and `postgres`, or set \
         DATABASE_URL to a server of your own"
    )]
    NoBinaries,
    /// The folder that was named, or found, does not hold a server that runs.
    #[error(
        "the PostgreSQL programs in {} cannot be used ({reason}): set WEIR_PG_BIN to a folder that \
         holds a working `initdb` and `postgres`", bin.display()
    )]
    BadBinaries {
        /// The folder of the programs.
        bin: PathBuf,
        /// What is the matter with them.
        reason: String,
    },
    /// The server is older than the SQL that Weir speaks.
    #[error(
        "PostgreSQL {major} in {} is too old: install version {} or later, or set WEIR_PG_BIN to \
         the bin folder of one", bin.display(), crate::LEAST_MAJOR
    )]
    TooOld {
        /// The folder of the programs.
        bin: PathBuf,
        /// Their major version.
        major: u32,
    },
    /// Root may not run PostgreSQL and there is nobody else.
    #[error(
        "PostgreSQL refuses to run as root and this machine has neither a user `postgres` nor a \
         user `nobody`: create one of them, or run Weir as an ordinary user"
    )]
    NoAccount,
    /// The server's user cannot reach the data folder.
    #[error(
        "the user `{account}`, as whom PostgreSQL runs because Weir is root, cannot enter {}: run \
         `chmod o+x` on it, or choose another data folder with WEIR_DATA_DIR", folder.display()
    )]
    CannotEnter {
        /// The user the server runs as.
        account: String,
        /// The first folder on the way that is closed to it.
        folder: PathBuf,
    },
    /// The data folder is closed to Weir itself.
    #[error(
        "Weir has no right to {doing} {} ({source}): give it to the user who runs Weir, or choose \
         another data folder with WEIR_DATA_DIR", path.display()
    )]
    NoRights {
        /// What was tried, as a verb.
        doing: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The system's word.
        source: io::Error,
    },
    /// A file stands where the data folder should be.
    #[error("{} is not a folder: choose another data folder with WEIR_DATA_DIR", path.display())]
    NotAFolder {
        /// The path that was given.
        path: PathBuf,
    },
    /// Someone else owns the data folder.
    #[error(
        "the data folder {} is in use by {owner}: stop that one first, or give this one another \
         folder with WEIR_DATA_DIR", folder.display()
    )]
    InUse {
        /// The data folder.
        folder: PathBuf,
        /// `process 123`, or `another process` when its number could not be read.
        owner: String,
    },
    /// The data were written by another major version.
    #[error(
        "the data in {} were written by PostgreSQL {found}, but the programs in {} are version \
         {major}: install PostgreSQL {found} and set WEIR_PG_BIN to its bin folder, or carry the \
         data over with pg_upgrade", folder.display(), bin.display()
    )]
    WrongMajor {
        /// The server's own folder within the data folder.
        folder: PathBuf,
        /// The version that wrote the data.
        found: String,
        /// The folder of the programs.
        bin: PathBuf,
        /// Their major version.
        major: u32,
    },
    /// No room left.
    #[error(
        "the disk that holds {} is full: make room there and start again, nothing was lost",
        folder.display()
    )]
    DiskFull {
        /// A file or folder on that disk.
        folder: PathBuf,
    },
    /// The data folder lacks a part that Weir wrote itself.
    #[error(
        "the database in {} is damaged ({what}): restore the folder from a backup, or move it away \
         to start with an empty database", folder.display()
    )]
    Damaged {
        /// The server's own folder within the data folder.
        folder: PathBuf,
        /// What is missing or unreadable.
        what: String,
    },
    /// One of PostgreSQL's programs gave up.
    #[error("`{program}` failed for {}: {said}", folder.display())]
    Failed {
        /// `initdb` or `postgres`.
        program: &'static str,
        /// The data folder.
        folder: PathBuf,
        /// Its own words, on one line.
        said: String,
    },
    /// A bounded wait ran out.
    #[error(
        "PostgreSQL did not {what} within {seconds} s (its last words: {said}): see {} and start \
         again", log.display()
    )]
    TooSlow {
        /// `finish initdb`, `start`, `stop`.
        what: &'static str,
        /// How long was waited.
        seconds: u64,
        /// The last line of its log.
        said: String,
        /// The log.
        log: PathBuf,
    },
    /// Anything else the system said.
    #[error("cannot {doing} {}: {source}", path.display())]
    Io {
        /// What was tried, as a verb.
        doing: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The system's word.
        source: io::Error,
    },
}

impl EmbeddedError {
    /// Turns a system error on `path` into the sentence that fits it.
    pub(crate) fn io(doing: &'static str, path: &Path, source: io::Error) -> Self {
        let path = path.to_path_buf();
        match source.kind() {
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                Self::NoRights { doing, path, source }
            }
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                Self::DiskFull { folder: path }
            }
            io::ErrorKind::NotADirectory => Self::NotAFolder { path },
            _ => Self::Io { doing, path, source },
        }
    }

    /// Reads what a program of PostgreSQL wrote before it gave up.
    pub(crate) fn said(program: &'static str, folder: &Path, output: &str) -> Self {
        let folder = folder.to_path_buf();
        if NO_SPACE.iter().any(|words| output.contains(words)) {
            return Self::DiskFull { folder };
        }
        Self::Failed { program, folder, said: telling_line(output) }
    }
}

/// How the C library says ENOSPC and EDQUOT; the programs run with `LC_ALL=C`.
const NO_SPACE: [&str; 2] = ["No space left on device", "Disk quota exceeded"];

/// The line that names the cause: the last one marked as an error, else the last one at all.
fn telling_line(output: &str) -> String {
    let lines = || output.lines().map(str::trim).filter(|line| !line.is_empty());
    let marked =
        |line: &&str| ["FATAL:", "PANIC:", "error:"].iter().any(|mark| line.contains(mark));
    let line = lines().rev().find(marked).or_else(|| lines().next_back());
    line.unwrap_or("it said nothing").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_that_names_the_cause_is_picked_out_of_the_log() {
        let log =
            "LOG:  starting\nFATAL:  could not map memory\nLOG:  database system is shut down\n";
        assert_eq!(telling_line(log), "FATAL:  could not map memory");
        assert_eq!(telling_line("hm\n\n"), "hm");
        assert_eq!(telling_line(""), "it said nothing");
    }

    #[test]
    fn a_full_disk_is_known_by_the_system_error_and_by_the_programs_words() {
        let by_kind =
            EmbeddedError::io("write", Path::new("/d"), io::ErrorKind::StorageFull.into());
        let by_words = EmbeddedError::said(
            "initdb",
            Path::new("/d"),
            "initdb: error: could not write file \"x\": No space left on device\n",
        );
        for error in [by_kind, by_words] {
            assert!(error.to_string().starts_with("the disk that holds /d is full"), "{error}");
        }
    }
}
