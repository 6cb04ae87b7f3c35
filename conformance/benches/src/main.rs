//! A stdio server on rmcp with one tool, `noop`, that does nothing: what Deskhand's own transport is measured against.

use rmcp::handler::server::router::tool::ToolRouter;
use rmcp::{ServerHandler, ServiceExt, tool, tool_handler, tool_router, transport::stdio};

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

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = Noop { tool_router: Noop::tool_router() };
    server.serve(stdio()).await?.waiting().await?;
    Ok(())
}
