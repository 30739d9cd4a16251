//! The data folder and what lies where in it.
//!
//! ```text
//! owner.lock        held by the process that uses the folder
//! postgres.log      the server's words, at most two files of bounded size
//! cluster/data      PostgreSQL's own folder
//! cluster/password  of the superuser
//! new-…/            a cluster being made; it gets the name `cluster` when it is complete
//! ```

use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

use crate::account::Account;
use crate::{Binaries, EmbeddedError};

/// Start of the name of a cluster in the making.
const UNFINISHED: &str = "new-";

/// A folder that Weir may use, with its full path.
#[derive(Debug, Clone)]
pub(crate) struct Folder {
    root: PathBuf,
}

impl Folder {
    /// Makes the folder where it is missing; folders made here may be passed through by all users,
    /// for the server may be another one.
    pub(crate) fn open(path: &Path) -> Result<Self, EmbeddedError> {
        let failed = |doing| move |error| EmbeddedError::io(doing, path, error);
        let path = std::path::absolute(path).map_err(failed("use"))?;
        for ancestor in path.ancestors().collect::<Vec<_>>().into_iter().rev() {
            match DirBuilder::new().mode(0o711).create(ancestor) {
                // The mode above is cut by the umask.
                Ok(()) => fs::set_permissions(ancestor, Permissions::from_mode(0o711))
                    .map_err(|error| EmbeddedError::io("open up", ancestor, error))?,
                Err(_) if ancestor.is_dir() => {}
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    return Err(EmbeddedError::NotAFolder { path: ancestor.to_path_buf() });
                }
                Err(error) => return Err(EmbeddedError::io("make", ancestor, error)),
            }
        }
        let root = fs::canonicalize(&path).map_err(failed("enter"))?;
        Ok(Self { root })
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    pub(crate) fn lock(&self) -> PathBuf {
        self.root.join("owner.lock")
    }

    pub(crate) fn log(&self) -> PathBuf {
        self.root.join("postgres.log")
    }

    pub(crate) fn cluster(&self) -> PathBuf {
        self.root.join("cluster")
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.cluster().join("data")
    }

    pub(crate) fn password(&self) -> PathBuf {
        self.cluster().join("password")
    }

    /// A name for a cluster in the making that nobody uses: a killed owner may have left an
    /// `initdb` that still writes to the last one.
    pub(crate) fn unfinished(&self) -> PathBuf {
        self.root.join(format!("{UNFINISHED}{:016x}", rand::random::<u64>()))
    }

    /// Removes clusters that were never completed. What cannot be removed now, because something
    /// still writes there, is tried again at the next start.
    pub(crate) fn sweep(&self) -> Result<(), EmbeddedError> {
        let failed = |error| EmbeddedError::io("read", &self.root, error);
        for entry in fs::read_dir(&self.root).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            if entry.file_name().as_encoded_bytes().starts_with(UNFINISHED.as_bytes()) {
                tracing::warn!(folder = %entry.path().display(), "removing a half-made database");
                let _ = fs::remove_dir_all(entry.path());
            }
        }
        Ok(())
    }

    /// Makes sure that the server's user can run the programs and come as far as this folder.
    pub(crate) fn check_entry(
        &self,
        binaries: &Binaries,
        account: &Account,
    ) -> Result<(), EmbeddedError> {
        let Account::Other { name, .. } = account else { return Ok(()) };
        let runs_in = |folder: &Path| {
            let mut probe = binaries.command("postgres", account);
            probe.arg("-V").current_dir(folder).output().map(|_| ())
        };
        runs_in(Path::new("/")).map_err(|error| EmbeddedError::BadBinaries {
            bin: binaries.bin().to_path_buf(),
            reason: format!("the user `{name}` may not run them: {error}"),
        })?;
        let mut ways = self.root.ancestors().collect::<Vec<_>>().into_iter().rev();
        match ways.find(|folder| runs_in(folder).is_err()) {
            None => Ok(()),
            Some(closed) => Err(EmbeddedError::CannotEnter {
                account: name.clone(),
                folder: closed.to_path_buf(),
            }),
        }
    }
}
