//! The options that every command takes, and what help pages say of them.

use std::path::PathBuf;

use clap::{Arg, Args, ColorChoice, Command};

/// The heading above options that every command has.
const GLOBAL: &str = "Options of every command";
/// The note on them in help pages.
const POINTER: &str = "Every command takes --root, --socket, --master-wait, --color, --reason and \
                       --debug: `gnt help options`.";

/// Options that every command has.
#[derive(Debug, Args)]
pub(crate) struct GlobalOptions {
    /// Directory below which all paths lie; the variable GANTRY_ROOT sets it too.
    #[arg(long, value_name = "DIR", global = true, help_heading = GLOBAL, display_order = 900)]
    pub(crate) root: Option<PathBuf>,
    /// The master's socket, if it is not where it should be below the root.
    #[arg(long, value_name = "PATH", global = true, help_heading = GLOBAL, display_order = 901)]
    pub(crate) socket: Option<PathBuf>,
    /// How long to wait for a master that restarts, or moves to another node. Default: 30.
    /// Submissions with unknown outcome are retried for at least 60 s.
    #[arg(
        long,
        value_name = "SECONDS",
        global = true,
        help_heading = GLOBAL,
        display_order = 901
    )]
    pub(crate) master_wait: Option<u16>,
    /// Whether to use colours.
    #[arg(
        long,
        value_name = "WHEN",
        default_value = "auto",
        global = true,
        help_heading = GLOBAL,
        display_order = 902
    )]
    pub(crate) color: ColorChoice,
    /// Why it is done; kept with the jobs and filter rules that it makes.
    #[arg(long, value_name = "TEXT", global = true, help_heading = GLOBAL, display_order = 903)]
    pub(crate) reason: Option<String>,
    /// Accepted for compatibility with Ganeti; recorded with the jobs but ignored.
    #[arg(
        short,
        long,
        action = clap::ArgAction::Count,
        global = true,
        help_heading = GLOBAL,
        display_order = 904
    )]
    pub(crate) debug: u8,
}

/// The options that every command takes, described.
pub(crate) fn described() -> String {
    let only = GlobalOptions::augment_args(Command::new("gnt").disable_help_flag(true));
    let mut only = only.help_template("{all-args}");
    only.render_long_help().to_string().trim_end().to_owned()
}

/// The definition whose help leaves out the options that every command takes.
pub(crate) fn hidden(definition: Command) -> Command {
    let hide = |argument: Arg| match argument.is_global_set() {
        true => argument.hide(true),
        false => argument,
    };
    definition.mut_args(hide)
}

/// The definition with a line on those options below each help page.
pub(crate) fn pointing(definition: Command) -> Command {
    let before = definition.get_after_help().map(|text| format!("{text}\n")).unwrap_or_default();
    definition.after_help(format!("{before}{POINTER}")).mut_subcommands(pointing)
}
