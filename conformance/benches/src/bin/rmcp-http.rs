//! The tool that does nothing on rmcp over HTTP, in axum, with TCP_NODELAY; prints its address. `--threads 1` for a
//! runtime of one thread.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::serve::ListenerExt;
use rmcp::handler::server::router::tool::ToolRouter;
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use rmcp::{ServerHandler, tool, tool_handler, tool_router};

#[derive(Clone)]
struct Noop {
    tool_router: ToolRouter<Self>,
}

#[tool_router(router = tool_router)]
impl Noop {
    #[tool(description = "Does nothing.")]
    async fn noop(&self) -> String {
        "ok".to_owned()
    }
}

#[tool_handler(router = self.tool_router)]
impl ServerHandler for Noop {}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let one = std::env::args().any(|argument| argument == "1");
    let mut runtime = if one { tokio::runtime::Builder::new_current_thread() } else { tokio::runtime::Builder::new_multi_thread() };
    runtime.enable_all().build()?.block_on(async {
        let mut config = StreamableHttpServerConfig::default();
        config.legacy_session_mode = false;
        config.json_response = true;
        let service = StreamableHttpService::new(|| Ok(Noop { tool_router: Noop::tool_router() }), Arc::new(NeverSessionManager::default()), config);
        let listener = tokio::net::TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).await?;
        println!("http://{}/mcp", listener.local_addr()?);
        let listener = listener.tap_io(|tcp| {
            let _ = tcp.set_nodelay(true);
        });
        axum::serve(listener, axum::Router::new().nest_service("/mcp", service)).await?;
        Ok(())
    })
}
