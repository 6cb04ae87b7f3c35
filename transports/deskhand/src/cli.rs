//! The command line.

use std::path::PathBuf;

use clap::{Parser, Subcommand, ValueEnum};

/// An MCP server through which an AI agent sees and drives a Linux desktop.
///
/// Exit codes: 0 done; 1 it didn't work out (not ready, a check failed, a mismatch); 2 bad usage; 3 the desktop can't be
/// reached; 4 a file can't be read or written.
#[derive(Debug, Parser)]
#[command(name = "deskhand", version, max_term_width = 100)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Serve MCP over stdin and stdout
    Mcp {
        /// Write a trace of the session to this new file, with secrets masked
        #[arg(long, value_name = "FILE")]
        record: Option<PathBuf>,
    },
    /// Tell whether the desktop can be seen and driven, and what stands in the way
    Status {
        /// As JSON, the same as the tool
        #[arg(long)]
        json: bool,
    },
    /// Stop every agent on this desktop at once; holds until `resume`
    Stop,
    /// Lift the stop
    Resume,
    /// Show what a server that died left pressed, release it, and clear it on a typed yes
    Recover,
    /// Look for what is missing on this machine, each with the command that mends it
    Doctor {
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// Print niri binds, a policy file and client configurations; changes nothing unless told
    Setup {
        /// Only this client's configuration
        #[arg(long, value_enum)]
        client: Option<Client>,
        /// Write the example policy file if there is none
        #[arg(long)]
        write_policy: bool,
    },
    /// List the tools, their arguments and their errors
    Tools {
        #[arg(long, value_enum, default_value_t = Format::Markdown)]
        format: Format,
        /// The same as --format json
        #[arg(long, conflicts_with = "format")]
        json: bool,
    },
    /// Replay traces through the core and compare
    Replay {
        #[arg(required = true, value_name = "FILE")]
        files: Vec<PathBuf>,
    },
    /// Show an agent's session on a private headless desktop, which is gone afterwards
    Try {
        /// Where the screenshot goes; default: the directory for temporary files
        #[arg(long, value_name = "DIR")]
        out: Option<PathBuf>,
        /// Don't install anything; when something is missing, say which command would
        #[arg(long)]
        no_install: bool,
    },
    /// Print a shell's completions
    Completions { shell: clap_complete::Shell },
    /// Started by the server itself
    #[command(hide = true)]
    Guard {
        #[arg(long)]
        socket: PathBuf,
    },
    /// Started by `try`: becomes the program, which then ends with its parent
    #[command(hide = true)]
    Child {
        #[arg(long)]
        parent: u32,
        #[arg(required = true, last = true)]
        argv: Vec<std::ffi::OsString>,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Client {
    ClaudeCode,
    Codex,
    Json,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    Markdown,
    Json,
}
