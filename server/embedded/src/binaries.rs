//! Where PostgreSQL's programs are on this machine.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use crate::EmbeddedError;
use crate::account::Account;
use crate::run::scrubbed;

/// The oldest major version whose SQL Weir may use: Debian 12's, the oldest that is tested.
pub const LEAST_MAJOR: u32 = 15;

/// Where distributions put versioned folders: parent, start of the name, the rest of the path.
const PLACES: [(&str, &str, &str); 7] = [
    ("/usr/lib/postgresql", "", "bin"),
    ("/usr/lib", "postgresql", "bin"),
    ("/usr", "pgsql-", "bin"),
    ("/usr/libexec", "postgresql", ""),
    ("/opt/homebrew/opt", "postgresql", "bin"),
    ("/usr/local/opt", "postgresql", "bin"),
    ("/Applications/Postgres.app/Contents/Versions", "", "bin"),
];

/// A folder with `initdb` and `postgres` of one major version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Binaries {
    bin: PathBuf,
    major: u32,
    chosen: bool,
}

impl Binaries {
    /// Finds the programs: the folder `explicit` (the value of `WEIR_PG_BIN`) and no other when it
    /// is given; else the first on `PATH`, else the highest version in the distributions' folders.
    ///
    /// # Errors
    /// `NoBinaries` when there is none, `TooOld` when there are only older ones than
    /// [`LEAST_MAJOR`], `BadBinaries` when `explicit` does not hold a server that runs.
    pub fn find(explicit: Option<&Path>) -> Result<Self, EmbeddedError> {
        if let Some(bin) = explicit {
            let found = Self { chosen: true, ..Self::in_folder(bin)? };
            return found.recent_enough();
        }
        let mut first_error = None;
        for bin in candidates() {
            match Self::in_folder(&bin).and_then(Self::recent_enough) {
                Ok(found) => return Ok(found),
                Err(error) => first_error = first_error.or(Some(error)),
            }
        }
        Err(first_error.unwrap_or(EmbeddedError::NoBinaries))
    }

    /// The same machine's programs of version `major`, for data that another version cannot read.
    pub(crate) fn of_major(major: &str) -> Option<Self> {
        let mut found = candidates().into_iter().filter_map(|bin| Self::in_folder(&bin).ok());
        found.find(|binaries| binaries.major.to_string() == major)
    }

    /// The folder that holds them.
    #[must_use]
    pub fn bin(&self) -> &Path {
        &self.bin
    }

    /// Their major version, such as 15.
    #[must_use]
    pub fn major(&self) -> u32 {
        self.major
    }

    /// `psql` of the same folder, where the package brought one.
    #[must_use]
    pub fn psql(&self) -> Option<PathBuf> {
        Some(self.bin.join("psql")).filter(|psql| psql.is_file())
    }

    /// Whether the caller named this folder, so that no other may be used in its place.
    pub(crate) fn chosen(&self) -> bool {
        self.chosen
    }

    /// A command on one of the programs, run as `account` and without Weir's own environment.
    pub(crate) fn command(&self, program: &str, account: &Account) -> Command {
        let mut command = scrubbed(&self.bin.join(program));
        account.apply(&mut command);
        command
    }

    fn in_folder(bin: &Path) -> Result<Self, EmbeddedError> {
        let bad = |reason: String| EmbeddedError::BadBinaries { bin: bin.to_path_buf(), reason };
        // A server finds its own files beside its real path, so links are followed first.
        let postgres = fs::canonicalize(bin.join("postgres"))
            .map_err(|error| bad(format!("no `postgres` there: {error}")))?;
        let real = postgres.parent().unwrap_or(bin).to_path_buf();
        if !real.join("initdb").is_file() {
            return Err(bad("no `initdb` there".to_owned()));
        }
        let output = scrubbed(&postgres).arg("-V").output();
        let output = output.map_err(|error| bad(format!("`postgres -V`: {error}")))?;
        let said = String::from_utf8_lossy(&output.stdout);
        let major =
            major_in(&said).ok_or_else(|| bad(format!("`postgres -V` said {:?}", said.trim())))?;
        Ok(Self { bin: real, major, chosen: false })
    }

    fn recent_enough(self) -> Result<Self, EmbeddedError> {
        if self.major < LEAST_MAJOR {
            return Err(EmbeddedError::TooOld { bin: self.bin, major: self.major });
        }
        Ok(self)
    }
}

/// The major version in `postgres (PostgreSQL) 15.18 (Debian …)`.
fn major_in(version_line: &str) -> Option<u32> {
    let (_, version) = version_line.split_once("(PostgreSQL) ")?;
    let digits: String = version.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().ok()
}

/// Folders worth a look, best first.
fn candidates() -> Vec<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let holds = |bin: &PathBuf| bin.join("postgres").is_file();
    let mut all: Vec<PathBuf> = env::split_paths(&path).filter(holds).collect();
    let mut versioned: Vec<(u32, PathBuf)> = Vec::new();
    for (parent, start, rest) in PLACES {
        let Ok(entries) = fs::read_dir(parent) else { continue };
        for entry in entries.flatten() {
            let name = entry.file_name();
            let Some(tail) = name.to_str().and_then(|name| name.strip_prefix(start)) else {
                continue;
            };
            let digits: String = tail.chars().filter(char::is_ascii_digit).collect();
            versioned.push((digits.parse().unwrap_or(0), entry.path().join(rest)));
        }
    }
    versioned.retain(|(_, bin)| holds(bin));
    versioned.sort_by(|left, right| right.cmp(left));
    all.extend(versioned.into_iter().map(|(_, bin)| bin));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_major_version_is_read_from_every_form_of_the_version_line() {
        assert_eq!(major_in("postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)\n"), Some(15));
        assert_eq!(major_in("postgres (PostgreSQL) 18.4\n"), Some(18));
        assert_eq!(major_in("postgres (PostgreSQL) 19devel\n"), Some(19));
        assert_eq!(major_in("cat (GNU coreutils) 9.1\n"), None);
    }
}
