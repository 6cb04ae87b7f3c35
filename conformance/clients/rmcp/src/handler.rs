//! What the client answers when it is asked, and what it has seen.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use rmcp::ClientHandler;
use rmcp::model::*;
use rmcp::service::{NotificationContext, RequestContext, RoleClient};
use serde_json::{Value, json};

#[derive(Clone, Default)]
pub struct Handler(Arc<Mutex<Seen>>);

#[derive(Default)]
pub struct Seen {
    /// `[progress, total]` each.
    pub progress: Vec<Value>,
    pub logged: Vec<Value>,
    pub changes: BTreeSet<String>,
}

impl Handler {
    pub fn seen<T>(&self, look: impl FnOnce(&mut Seen) -> T) -> T {
        look(&mut self.0.lock().expect("no holder of the lock panics"))
    }
}

/// What the user fills in, whichever field is asked for.
fn filled_in(field: &str) -> Value {
    match field {
        "username" => json!("ada"),
        "email" => json!("ada@example.com"),
        "name" => json!("Ada"),
        "color" => json!("green"),
        "context" => json!("tests"),
        _ => json!(true),
    }
}

impl ClientHandler for Handler {
    fn get_info(&self) -> ClientConfig {
        let capabilities = serde_json::from_value(json!({"sampling": {}, "elicitation": {}, "roots": {}}))
            .expect("they are capabilities");
        ClientConfig::new(capabilities, Implementation::new("conformance", "1.0.0"))
    }

    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        let ElicitRequestParams::FormElicitationParams { requested_schema, .. } = request else {
            return Ok(ElicitResult::new(ElicitationAction::Decline));
        };
        let content = requested_schema.properties.keys().map(|field| (field.clone(), filled_in(field))).collect();
        Ok(ElicitResult::new(ElicitationAction::Accept).with_content(Value::Object(content)))
    }

    async fn create_message(
        &self,
        _: CreateMessageRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<CreateMessageResult, ErrorData> {
        let answer = json!({"role": "assistant", "content": {"type": "text", "text": "Paris"}, "model": "none", "stopReason": "endTurn"});
        serde_json::from_value(answer).map_err(|error| ErrorData::internal_error(error.to_string(), None))
    }

    async fn list_roots(&self, _: RequestContext<RoleClient>) -> Result<ListRootsResult, ErrorData> {
        Ok(ListRootsResult::new(vec![Root::new("file:///somewhere")]))
    }

    async fn on_progress(&self, params: ProgressNotificationParam, _: NotificationContext<RoleClient>) {
        self.seen(|seen| seen.progress.push(json!([params.progress, params.total])));
    }

    async fn on_logging_message(&self, params: LoggingMessageNotificationParam, _: NotificationContext<RoleClient>) {
        self.seen(|seen| seen.logged.push(params.data));
    }

    async fn on_resource_updated(&self, params: ResourceUpdatedNotificationParam, _: NotificationContext<RoleClient>) {
        self.seen(|seen| seen.changes.insert(params.uri));
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.seen(|seen| seen.changes.insert("tools".into()));
    }

    async fn on_prompt_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.seen(|seen| seen.changes.insert("prompts".into()));
    }
}
