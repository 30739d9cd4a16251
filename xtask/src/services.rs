//! PostgreSQL and Redis for one run of the tests, on free ports and gone afterwards.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use embedded::{Binaries, Cluster, DATABASE, Durability, Options};
use secrecy::{ExposeSecret, SecretString};

use crate::command::on_path;
use crate::redis::{Redis, RedisCluster};
use crate::scratch::Scratch;
use crate::workspace::Workspace;

/// The servers of one run. Dropping it stops them and removes their folder.
#[derive(Debug, Default)]
pub(crate) struct Services {
    postgres: Option<Postgres>,
    redis: Option<Redis>,
    redis_cluster: Option<RedisCluster>,
    // Last: the servers write there until they have stopped.
    scratch: Option<Scratch>,
}

#[derive(Debug)]
struct Postgres {
    cluster: Cluster,
    binaries: Binaries,
}

impl Services {
    /// Starts a throwaway PostgreSQL. To be called from the main thread, with which it ends.
    pub(crate) fn start_postgres(&mut self, binaries: Binaries) -> Result<()> {
        let data_dir = self.scratch()?.folder().join("postgres");
        let durability = Durability::Throwaway;
        let options = Options { data_dir, binaries: binaries.clone(), durability };
        let cluster = Cluster::start(options)?;
        self.postgres = Some(Postgres { cluster, binaries });
        Ok(())
    }

    /// Starts a Redis that keeps nothing, and a cluster of three more.
    pub(crate) fn start_redis(&mut self, program: &Path) -> Result<()> {
        let folder = self.scratch()?.folder().to_owned();
        self.redis = Some(Redis::start(program, &folder.join("redis"))?);
        self.redis_cluster = Some(RedisCluster::start(program, &folder.join("redis-cluster"))?);
        Ok(())
    }

    /// The database whose tables are those of `migrations/`, against which queries are checked.
    pub(crate) fn migrated(&self, workspace: &Workspace) -> Result<SecretString> {
        let postgres = self.postgres.as_ref().context("PostgreSQL was not started")?;
        let url = postgres.cluster.url(DATABASE);
        let psql = postgres.binaries.psql().or_else(|| on_path("psql"));
        let psql = psql.context("`psql` is missing: install `postgresql-client`")?;
        for file in files_in(&workspace.root.join("migrations"), "sql")? {
            let mut command = Command::new(&psql);
            command.args(["-Xq", "-o", "/dev/null", "-v", "ON_ERROR_STOP=1"]);
            command.args(["-d", url.expose_secret(), "-f"]);
            command.arg(&file).env("PGOPTIONS", "-c client_min_messages=warning");
            if !workspace.signals.run(&mut command)?.success() {
                bail!("{} does not run on an empty database", file.display());
            }
        }
        Ok(url)
    }

    /// What the tests must know to find these servers.
    pub(crate) fn variables(&self) -> Result<Vec<(&'static str, OsString)>> {
        let mut all: Vec<(&str, OsString)> = Vec::new();
        if let Some(Postgres { cluster, binaries }) = &self.postgres {
            let url = cluster.url(DATABASE);
            for name in ["DATABASE_URL", "WEIR_TEST_DATABASE_URL"] {
                all.push((name, url.expose_secret().into()));
            }
            for name in ["WEIR_PG_BIN", "WEIR_TEST_PG_BIN"] {
                all.push((name, binaries.bin().into()));
            }
        }
        if let Some(redis) = &self.redis {
            for name in ["REDIS_URL", "WEIR_TEST_REDIS_URL"] {
                all.push((name, format!("redis://127.0.0.1:{}", redis.port).into()));
            }
            if let Some(cluster) = &self.redis_cluster {
                all.push(("WEIR_TEST_REDIS_CLUSTER_URL", cluster.url().into()));
            }
            all.push(("WEIR_TEST_REDIS_SERVER", redis.program.clone().into()));
            // Tests that stop a Redis start one of their own, by its name.
            let path = env::var_os("PATH").unwrap_or_default();
            let folder = redis.program.parent().map(Path::to_path_buf);
            let joined = env::join_paths(env::split_paths(&path).chain(folder));
            all.push(("PATH", joined.context("PATH has a folder that cannot be listed")?));
        }
        if let Some(scratch) = &self.scratch {
            all.push(("TMPDIR", scratch.for_tests().into()));
        }
        Ok(all)
    }

    /// Keeps the files of failed tests in `folder`; says whether there were any.
    pub(crate) fn keep_files(&self, folder: &Path) -> Result<bool> {
        self.scratch.as_ref().map_or(Ok(false), |scratch| scratch.keep(folder))
    }

    fn scratch(&mut self) -> Result<&Scratch> {
        if self.scratch.is_none() {
            self.scratch = Some(Scratch::new()?);
        }
        self.scratch.as_ref().context("no folder for the servers")
    }
}

/// The files in `folder` whose names end in `.extension`, in the order of their names.
pub(crate) fn files_in(folder: &Path, extension: &str) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).with_context(|| format!("no {}", folder.display()))?;
    let paths = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
    let mut files: Vec<PathBuf> =
        paths.into_iter().filter(|path| path.extension().is_some_and(|e| e == extension)).collect();
    files.sort();
    Ok(files)
}
