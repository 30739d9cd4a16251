//! Folders of the spool: each belongs to one process, which holds its lock for as long as it lives.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// The file whose lock says that the owner lives.
const LOCK: &str = "lock";
/// How a segment's file name ends.
const SEGMENT: &str = ".spool";
/// Where what could not be read is kept for a person to look at.
const DAMAGED: &str = "damaged";
/// How many damaged segments are kept: enough to learn from, and no way to fill a disk.
const DAMAGED_FILES_MAX: usize = 64;
/// How many folders one process id may have left behind before something else is wrong.
const NAMES_MAX: u32 = 10_000;

/// A folder whose lock this process holds.
#[derive(Debug)]
pub(super) struct Folder {
    path: PathBuf,
    /// Held until it is dropped.
    _lock: File,
}

impl Folder {
    /// Makes a folder for this process. It appears under its name only when it is locked, so that nobody takes it
    /// for a dead one's.
    pub(super) fn make(root: &Path) -> io::Result<Self> {
        make_dir(root)?;
        let pid = std::process::id();
        for number in 0..NAMES_MAX {
            let hidden = root.join(format!(".{pid}-{number}"));
            match DirBuilder::new().mode(0o700).create(&hidden) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                made => made?,
            }
            let lock = new_file(&hidden.join(LOCK))?;
            lock.try_lock().map_err(io::Error::from)?;
            let path = root.join(format!("{pid}-{number}"));
            if fs::rename(&hidden, &path).is_ok() {
                return Ok(Self { path, _lock: lock });
            }
            // An earlier process of this id left calls behind: its folder keeps the name.
            fs::remove_file(hidden.join(LOCK))?;
            fs::remove_dir(&hidden)?;
        }
        Err(io::Error::other("no name is left for a folder of the spool"))
    }

    /// Takes the folders whose owner is dead.
    pub(super) fn adopt_all(root: &Path) -> io::Result<Vec<Self>> {
        let mut adopted = Vec::new();
        for entry in fs::read_dir(root)? {
            let entry = entry?;
            let name = entry.file_name();
            let is_ours =
                name.to_str().is_some_and(|name| !name.starts_with('.') && name != DAMAGED);
            if is_ours && entry.file_type()?.is_dir() {
                adopted.extend(Self::adopt(entry.path())?);
            }
        }
        Ok(adopted)
    }

    fn adopt(path: PathBuf) -> io::Result<Option<Self>> {
        let lock_path = path.join(LOCK);
        let lock = match OpenOptions::new().read(true).write(true).open(&lock_path) {
            Ok(lock) => lock,
            // Another process has adopted it, and is removing it.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(error)) => return Err(error),
        }
        // Between the two steps another process may have adopted and removed it.
        let is_same = fs::metadata(&lock_path)
            .and_then(|now| Ok((now.dev(), now.ino()) == id(&lock)?))
            .unwrap_or(false);
        Ok(is_same.then_some(Self { path, _lock: lock }))
    }

    /// The segments, oldest first.
    pub(super) fn segments(&self) -> io::Result<Vec<PathBuf>> {
        let mut segments = Vec::new();
        for entry in fs::read_dir(&self.path)? {
            let path = entry?.path();
            let name = path.file_name().and_then(|name| name.to_str());
            if name.is_some_and(|name| name.ends_with(SEGMENT)) {
                segments.push(path);
            }
        }
        // Numbers have one width, so the names sort as the numbers do.
        segments.sort();
        Ok(segments)
    }

    /// Where the segment of this number is.
    pub(super) fn segment(&self, number: u64) -> PathBuf {
        self.path.join(format!("{number:016}{SEGMENT}"))
    }

    /// Puts a segment that cannot be read to its end aside, for a person.
    pub(super) fn set_aside(&self, segment: &Path) -> io::Result<PathBuf> {
        let root = self.path.parent().unwrap_or(&self.path);
        let damaged = root.join(DAMAGED);
        make_dir(&damaged)?;
        let name =
            |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let kept = damaged.join(format!("{}-{}", name(&self.path), name(segment)));
        fs::rename(segment, &kept)?;
        forget_oldest(&damaged)?;
        Ok(kept)
    }

    /// Removes the folder with what is left in it.
    pub(super) fn remove(self) -> io::Result<()> {
        for segment in self.segments()? {
            fs::remove_file(segment)?;
        }
        fs::remove_file(self.path.join(LOCK))?;
        fs::remove_dir(&self.path)
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

fn make_dir(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// A new file, which only this user may read.
pub(super) fn new_file(path: &Path) -> io::Result<File> {
    OpenOptions::new().create_new(true).read(true).append(true).mode(0o600).open(path)
}

fn id(file: &File) -> io::Result<(u64, u64)> {
    let metadata = file.metadata()?;
    Ok((metadata.dev(), metadata.ino()))
}

/// Keeps the newest damaged segments.
fn forget_oldest(damaged: &Path) -> io::Result<()> {
    let mut files = Vec::new();
    for entry in fs::read_dir(damaged)? {
        let entry = entry?;
        files.push((entry.metadata()?.modified()?, entry.path()));
    }
    files.sort();
    let excess = files.len().saturating_sub(DAMAGED_FILES_MAX);
    for (_, path) in &files[..excess] {
        tracing::error!(path = %path.display(), "the oldest damaged segment of the spool is removed");
        fs::remove_file(path)?;
    }
    Ok(())
}
