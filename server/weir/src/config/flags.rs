//! The settings as flags of the command line, made from the table.

use std::path::PathBuf;

use clap::error::ErrorKind;
use clap::{Arg, ArgMatches, Args, Command, FromArgMatches, value_parser};

use super::setting::SETTINGS;
use super::sources::FlagTexts;

/// Under which the settings stand in `--help`.
const HEADING: &str = "Settings (see also `weir config print`)";

/// The settings said on the command line.
#[derive(Debug, Clone, Default)]
pub struct Flags {
    /// The settings file.
    pub config: Option<PathBuf>,
    pub(super) texts: FlagTexts,
}

impl Flags {
    /// Says `flag` as if it stood on the command line.
    #[must_use]
    pub fn with(mut self, flag: &'static str, text: &str) -> Self {
        self.texts.insert(flag, text.to_owned());
        self
    }
}

impl Args for Flags {
    fn augment_args(mut command: Command) -> Command {
        command = command.arg(
            Arg::new("config")
                .long("config")
                .value_name("FILE")
                .help("The settings file, in TOML [env: WEIR_CONFIG]")
                .help_heading(HEADING)
                .value_parser(value_parser!(PathBuf)),
        );
        for setting in SETTINGS {
            let default = match setting.default {
                "" => String::new(),
                default => format!(" [default: {default}]"),
            };
            let env = setting.env;
            let help = if setting.secret {
                format!("A file that holds it. {} [env: {env} or {env}_FILE]", setting.help)
            } else {
                format!("{} [env: {env}]{default}", setting.help)
            };
            command = command.arg(
                Arg::new(setting.flag)
                    .long(setting.flag)
                    .value_name(if setting.secret { "FILE" } else { "VALUE" })
                    .help(help)
                    .hide_short_help(true)
                    .help_heading(HEADING),
            );
        }
        command
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for Flags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut flags = Self::default();
        flags.update_from_arg_matches(matches)?;
        Ok(flags)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        self.config = matches.get_one::<PathBuf>("config").cloned();
        for setting in SETTINGS {
            let text = matches
                .try_get_one::<String>(setting.flag)
                .map_err(|error| clap::Error::raw(ErrorKind::InvalidValue, error))?;
            if let Some(text) = text {
                self.texts.insert(setting.flag, text.clone());
            }
        }
        Ok(())
    }
}
