//! Whose server it is: root may not run PostgreSQL, so then somebody else does.

use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use nix::unistd::{Gid, Uid, User};

use crate::EmbeddedError;

/// The user the server runs as.
#[derive(Debug, Clone)]
pub(crate) enum Account {
    /// Weir is an ordinary user, and so is the server.
    Own,
    /// Weir is root: the server is this user instead.
    Other {
        /// For messages.
        name: String,
        uid: Uid,
        gid: Gid,
    },
}

impl Account {
    /// Picks `postgres`, which Debian's package makes, else `nobody`; only root needs either.
    pub(crate) fn pick() -> Result<Self, EmbeddedError> {
        if !Uid::effective().is_root() {
            return Ok(Self::Own);
        }
        let known = |name: &str| User::from_name(name).ok().flatten();
        let user = known("postgres").or_else(|| known("nobody"));
        let user = user.ok_or(EmbeddedError::NoAccount)?;
        Ok(Self::Other { name: user.name, uid: user.uid, gid: user.gid })
    }

    /// Makes `command` run as this user; the standard library also drops root's other groups.
    pub(crate) fn apply(&self, command: &mut Command) {
        if let Self::Other { uid, gid, .. } = self {
            command.uid(uid.as_raw()).gid(gid.as_raw());
        }
    }

    /// Gives `path` to this user.
    pub(crate) fn own(&self, path: &Path) -> Result<(), EmbeddedError> {
        let Self::Other { uid, gid, .. } = self else { return Ok(()) };
        nix::unistd::chown(path, Some(*uid), Some(*gid))
            .map_err(|errno| EmbeddedError::io("hand over", path, io::Error::from(errno)))
    }
}
