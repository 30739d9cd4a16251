//! What is in this repository, as cargo tells it.

use std::collections::BTreeSet;
use std::env;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::command::cargo_in;
use crate::signals::Signals;

/// The working copy.
#[derive(Debug)]
pub(crate) struct Workspace {
    pub(crate) root: PathBuf,
    /// Cargo's folder for what it builds.
    pub(crate) target: PathBuf,
    pub(crate) packages: Vec<Package>,
    pub(crate) signals: Signals,
}

/// A package of the workspace.
#[derive(Debug)]
pub(crate) struct Package {
    pub(crate) name: String,
    pub(crate) folder: PathBuf,
    /// All that it names in its manifest, for building or testing.
    pub(crate) dependencies: BTreeSet<String>,
}

impl Workspace {
    /// Finds the working copy around the current folder.
    pub(crate) fn find(signals: &Signals) -> Result<Self> {
        let here = env::current_dir().context("cannot tell the current folder")?;
        let is_root = |folder: &&Path| folder.join("xtask/Cargo.toml").is_file();
        let root = here.ancestors().find(is_root);
        let root = root.context("this is not a working copy of Weir")?.to_path_buf();
        let mut metadata = cargo_in(&root);
        metadata.args(["metadata", "--locked", "--no-deps", "--format-version", "1"]);
        let text = signals.output(&mut metadata)?;
        let json: Value = serde_json::from_str(&text).context("cannot read cargo's metadata")?;
        let target = json["target_directory"].as_str().context("cargo names no target folder")?;
        let packages = json["packages"].as_array().context("cargo names no packages")?;
        let packages = packages.iter().map(Package::read).collect::<Result<_>>()?;
        Ok(Self { target: target.into(), packages, root, signals: signals.clone() })
    }

    /// Cargo, at the root, in the clean environment that all its calls share.
    pub(crate) fn cargo(&self, subcommand: &str) -> Command {
        let mut cargo = cargo_in(&self.root);
        cargo.arg(subcommand);
        cargo
    }

    /// The folder of the built site.
    pub(crate) fn site(&self) -> PathBuf {
        self.target.join("site")
    }

    /// The folder of this tool's own state, to which this process alone may write until the lock is
    /// dropped: two runs at the same time must not mix up the same files.
    pub(crate) fn own_folder(&self) -> Result<(PathBuf, File)> {
        let folder = self.target.join("xtask");
        let locked = fs::create_dir_all(&folder).and_then(|()| {
            let file = File::create(folder.join("lock"))?;
            file.lock()?;
            Ok(file)
        });
        let locked = locked.with_context(|| format!("cannot lock {}", folder.display()))?;
        Ok((folder, locked))
    }

    pub(crate) fn package(&self, name: &str) -> Result<&Package> {
        let found = self.packages.iter().find(|package| package.name == name);
        found.with_context(|| {
            let names: Vec<_> = self.packages.iter().map(|package| package.name.as_str()).collect();
            format!("no package is called {name}: there are {}", names.join(", "))
        })
    }
}

impl Package {
    fn read(json: &Value) -> Result<Self> {
        let text = |value: &Value| value.as_str().map(ToOwned::to_owned);
        let name = text(&json["name"]).context("a package without a name")?;
        let manifest = text(&json["manifest_path"]).context("a package without a manifest")?;
        let Some(folder) = Path::new(&manifest).parent() else { bail!("{manifest} is no path") };
        let dependencies = json["dependencies"].as_array().into_iter().flatten();
        let dependencies = dependencies.filter_map(|one| text(&one["name"])).collect();
        Ok(Self { name, folder: folder.to_path_buf(), dependencies })
    }

    /// Whether the manifest names one of `names`.
    pub(crate) fn needs(&self, names: &[&str]) -> bool {
        names.iter().any(|name| self.dependencies.contains(*name) || self.name == *name)
    }
}
