//! One owner per data folder.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use crate::EmbeddedError;

/// The most that is read of the lock file; a process number has ten digits at most.
const OWNER_BYTES_MAX: u64 = 32;

/// The right to use a data folder. The system gives it back when the process ends, however it ends.
#[derive(Debug)]
pub(crate) struct Owner {
    _locked: File,
}

impl Owner {
    /// Takes the lock file at `path` in `folder`, and leaves this process's number in it.
    pub(crate) fn take(folder: &Path, path: &Path) -> Result<Self, EmbeddedError> {
        let failed = |doing| move |error| EmbeddedError::io(doing, path, error);
        // The file is opened close-on-exec, so the server does not inherit the lock.
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let mut file = options.open(path).map_err(failed("write"))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut owner = String::new();
                let read = file.take(OWNER_BYTES_MAX).read_to_string(&mut owner);
                let pid = read.ok().and_then(|_| owner.trim().parse::<u32>().ok());
                let owner = match pid {
                    Some(pid) => format!("process {pid}"),
                    None => "another process".to_owned(),
                };
                return Err(EmbeddedError::InUse { folder: folder.to_path_buf(), owner });
            }
            Err(TryLockError::Error(error)) => return Err(failed("lock")(error)),
        }
        file.set_len(0).map_err(failed("write"))?;
        file.rewind().map_err(failed("write"))?;
        writeln!(file, "{}", std::process::id()).map_err(failed("write"))?;
        Ok(Self { _locked: file })
    }
}
