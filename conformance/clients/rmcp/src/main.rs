//! The fixtures by rmcp: `rmcp-client legacy|auto|2026-07-28 URL`, or `-- COMMAND [ARGUMENT...]` in place of the URL.
//! Prints one JSON object; `../fixtures/test_clients.py` knows what must come of it.

mod handler;
mod session;

use std::error::Error;
use std::time::Duration;

use rmcp::model::ProtocolVersion;
use rmcp::service::{ClientLifecycleMode, ClientServiceExt, RoleClient, RunningService};
use rmcp::transport::{StreamableHttpClientTransport, TokioChildProcess};
use serde_json::Value;
use tokio::process::Command;

use handler::Handler;

pub type Failure = Box<dyn Error + Send + Sync>;
pub type Client = RunningService<RoleClient, Handler>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let report = tokio::time::timeout(Duration::from_secs(90), run(&arguments)).await??;
    println!("{report}");
    Ok(())
}

async fn run(arguments: &[String]) -> Result<Value, Failure> {
    let handler = Handler::default();
    let mut client = match arguments {
        [era, dashes, program, rest @ ..] if dashes == "--" => {
            let mut command = Command::new(program);
            command.args(rest);
            handler.clone().serve_with_lifecycle(TokioChildProcess::new(command)?, lifecycle(era)?).await?
        }
        [era, url] => {
            handler
                .clone()
                .serve_with_lifecycle(StreamableHttpClientTransport::from_uri(url.as_str()), lifecycle(era)?)
                .await?
        }
        _ => return Err("usage: rmcp-client ERA URL | rmcp-client ERA -- COMMAND [ARGUMENT...]".into()),
    };
    let report = session::session(&client, &handler).await?;
    client.close().await?;
    Ok(report)
}

fn lifecycle(era: &str) -> Result<ClientLifecycleMode, Failure> {
    let preferred_versions = vec![ProtocolVersion::V_2026_07_28];
    match era {
        "legacy" => Ok(ClientLifecycleMode::Initialize),
        "auto" => Ok(ClientLifecycleMode::Auto { preferred_versions, legacy_version: None }),
        "2026-07-28" => Ok(ClientLifecycleMode::Discover { preferred_versions }),
        other => Err(format!("no era is named {other:?}").into()),
    }
}
