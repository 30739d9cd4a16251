//! `weir config print`.

use clap::Args;

use super::{say, say_json};
use crate::config::{Config, Environment, Flags, Shown};
use crate::failure::Failure;

/// What `config print` takes.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  weir config print\n  weir config print --json | jq")]
pub(crate) struct PrintArgs {
    /// As JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    flags: Flags,
}

/// Prints each setting with its value and its source.
pub(crate) fn print(args: &PrintArgs, environment: &Environment) -> Result<(), Failure> {
    let shown = Config::explain(&args.flags, environment)?;
    if args.json {
        return say_json(&shown);
    }
    let text = |line: &Shown| line.value.clone().unwrap_or_else(|| "-".to_owned());
    let key_width = shown.iter().map(|line| line.key.len()).max().unwrap_or(0);
    let text_width = shown.iter().map(|line| text(line).chars().count()).max().unwrap_or(0);
    let lines: Vec<String> = shown
        .iter()
        .map(|line| format!("{:key_width$}  {:text_width$}  {}", line.key, text(line), line.source))
        .collect();
    say(&lines.join("\n"))
}
