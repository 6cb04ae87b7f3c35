//! The command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

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
    /// Serve MCP over HTTP, to clients that carry a token
    Serve(Serve),
    /// Show or manage the tokens that HTTP clients carry; without a subcommand: show the one named `default`
    Token {
        #[command(subcommand)]
        command: Option<TokenCommand>,
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
    /// Print key binds, a policy file and client configurations; changes nothing unless told
    Setup(Setup),
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

#[derive(Debug, Args)]
pub struct Serve {
    /// A loopback address and port; port 0 takes a free one. Default: 127.0.0.1:7333, unless another socket is given
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub addr: Option<String>,
    /// A Unix socket that only you can connect to
    #[arg(long, value_name = "PATH")]
    pub unix: Option<PathBuf>,
    /// Ask for no token; on a Unix socket only
    #[arg(long)]
    pub no_auth: bool,
    /// Listen beyond loopback; the token then travels as clearly as the network lets it
    #[arg(long)]
    pub allow_remote: bool,
    /// Also accept this Host (a name, or name:port); for a reverse proxy. May be repeated
    #[arg(long, value_name = "HOST")]
    pub allow_host: Vec<String>,
    /// Also accept requests from this web origin, such as https://app.example. May be repeated
    #[arg(long, value_name = "ORIGIN")]
    pub allow_origin: Vec<String>,
    /// Tell clients that this issuer gives out tokens (RFC 9728)
    #[arg(long, value_name = "URL")]
    pub authorization_server: Option<String>,
    /// At most so many requests a minute for each token
    #[arg(long, value_name = "N")]
    pub requests_per_minute: Option<std::num::NonZeroU32>,
    /// Write a trace of all sessions to this new file, with secrets masked
    #[arg(long, value_name = "FILE")]
    pub record: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub enum TokenCommand {
    /// Show a token
    Show {
        #[arg(default_value = "default")]
        name: String,
    },
    /// Make a token and show it; each client can have its own, with its own lease and limits
    Add { name: String },
    /// The names of all tokens
    List,
    /// Take a token back; a running server ends its sessions within a second
    Remove { name: String },
}

#[derive(Debug, Args)]
pub struct Setup {
    /// Only this client's configuration
    #[arg(long, value_enum)]
    pub client: Option<Client>,
    /// Clients connect to `deskhand serve` instead of starting the server themselves
    #[arg(long)]
    pub http: bool,
    /// Write the example policy file if there is none
    #[arg(long)]
    pub write_policy: bool,
    /// Print units for the user's systemd that run `deskhand serve`
    #[arg(long, conflicts_with_all = ["client", "http", "write_policy"])]
    pub systemd: bool,
    /// Write those units, unless there are any
    #[arg(long, conflicts_with_all = ["client", "http", "write_policy", "systemd"])]
    pub write_systemd: bool,
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
