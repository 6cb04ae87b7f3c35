//! What is asked of the fixtures. Results are read as the JSON that they come from.

use std::time::Duration;

use rmcp::model::*;
use rmcp::service::{PeerRequestOptions, ServiceError};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::handler::{Handler, Seen};
use crate::{Client, Failure};

const WATCHED: &str = "test://watched-resource";
const CHANGES: [&str; 3] = ["test_trigger_tool_change", "test_trigger_prompt_change", "test_trigger_resource_change"];

pub async fn session(client: &Client, handler: &Handler) -> Result<Value, Failure> {
    let about = client.peer().peer_info().ok_or("the client knows nothing of its server")?;
    let legacy = about.protocol_version.has_initialize();
    if legacy {
        client.set_level(from(json!({"level": "info"}))?).await?;
    }
    let mut report = json!({
        "protocol": about.protocol_version,
        "server": about.server_info.as_ref().map(|server| &server.name),
        "tools": names(client.list_all_tools().await?, "name")?,
    });
    contents(client, &mut report).await?;
    running(client, handler, legacy, &mut report).await?;
    questions(client, &mut report).await?;
    offers(client, &mut report).await?;
    report["changes"] =
        if legacy { changes_by_session(client, handler).await? } else { changes_by_stream(client).await? };
    Ok(report)
}

async fn contents(client: &Client, report: &mut Value) -> Result<(), Failure> {
    report["text"] = text(client, "test_simple_text", json!({})).await?;
    report["kinds"] = names(call(client, "test_multiple_content_types", json!({})).await?["content"].clone(), "type")?;
    report["audio"] = call(client, "test_audio_content", json!({})).await?["content"][0]["mimeType"].take();
    report["link"] = call(client, "test_resource_link", json!({})).await?["content"][0]["uri"].take();
    report["echo"] = call(client, "test_echo", json!({"text": "héllo ✓"})).await?["structuredContent"].take();
    let failed = call(client, "test_error_handling", json!({})).await?;
    report["failed"] = json!([failed["isError"], failed["content"][0]["text"]]);
    let headers = json!({"region": "Zürich ", "priority": -3, "dry_run": true, "note": "x"});
    report["in_headers"] = parsed(&text(client, "test_header_parameters", headers).await?)?;
    let refused = json!({"contactMethod": "phone", "email": "a@b"});
    report["schema_refused"] = call(client, "json_schema_2020_12_tool", refused).await?["isError"].take();
    report["unknown_tool"] = code(client.call_tool(tool("no_such_tool", json!({}))?).await);
    Ok(())
}

async fn running(client: &Client, handler: &Handler, legacy: bool, report: &mut Value) -> Result<(), Failure> {
    call(client, "test_tool_with_progress", json!({})).await?;
    report["progress"] = handler.seen(|seen| json!(seen.progress));
    let mut logging = tool("test_tool_with_logging", json!({}))?;
    if !legacy {
        logging.meta = Some(from(json!({"io.modelcontextprotocol/logLevel": "info"}))?);
    }
    client.call_tool(logging).await?;
    until(handler, |seen| seen.logged.len() >= 3).await;
    report["logged"] = handler.seen(|seen| json!(seen.logged));
    report["at_once"] = json!(at_once(client).await?);
    let long = ClientRequest::CallToolRequest(CallToolRequest::new(tool("test_wait", json!({"ms": 60_000}))?));
    let call = client.send_cancellable_request(long, PeerRequestOptions::no_options()).await?;
    until_waiting(client, "1").await?;
    call.cancel(Some("enough".into())).await?;
    until_waiting(client, "0").await?;
    report["cancelled"] = json!(true);
    report["resumed"] = text(client, "test_reconnection", json!({})).await?;
    Ok(())
}

/// How many different answers 20 calls in flight got.
async fn at_once(client: &Client) -> Result<usize, Failure> {
    let mut calls = tokio::task::JoinSet::new();
    for ms in 100..120 {
        let peer = client.peer().clone();
        let params = tool("test_wait", json!({"ms": ms}))?;
        calls.spawn(async move { peer.call_tool(params).await });
    }
    let mut answers = std::collections::BTreeSet::new();
    while let Some(answer) = calls.join_next().await {
        answers.insert(serde_json::to_string(&answer??.content)?);
    }
    Ok(answers.len())
}

/// Until so many calls run in the server.
async fn until_waiting(client: &Client, count: &str) -> Result<(), Failure> {
    let waiting = async {
        while text(client, "test_waiting", json!({})).await? != count {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        Ok(())
    };
    tokio::time::timeout(Duration::from_secs(20), waiting)
        .await
        .map_err(|_| format!("the server didn't come to {count} waiting calls"))?
}

async fn questions(client: &Client, report: &mut Value) -> Result<(), Failure> {
    report["sampled"] = text(client, "test_sampling", json!({"prompt": "capital?"})).await?;
    report["filled"] = text(client, "test_elicitation", json!({"message": "who?"})).await?;
    report["roots"] = text(client, "test_input_required_result_list_roots", json!({})).await?;
    report["asked_at_once"] = text(client, "test_input_required_result_multiple_inputs", json!({})).await?;
    report["two_rounds"] = text(client, "test_input_required_result_multi_round", json!({})).await?;
    report["prompt_asked"] = prompt(client, json!({"name": "test_input_required_result_prompt"})).await?["text"].take();
    Ok(())
}

async fn offers(client: &Client, report: &mut Value) -> Result<(), Failure> {
    report["resources"] = names(client.list_all_resources().await?, "uri")?;
    report["templates"] = names(client.list_all_resource_templates().await?, "uriTemplate")?;
    report["read"] = read(client, "test://static-text").await?["text"].take();
    let blob = read(client, "test://static-binary").await?;
    report["blob"] = json!([blob["mimeType"], blob["blob"].as_str().map(str::len)]);
    report["templated"] = parsed(&read(client, "test://template/7/data").await?["text"])?["id"].take();
    report["missing"] = code(client.read_resource(from(json!({"uri": "test://missing"}))?).await);
    report["prompts"] = names(client.list_all_prompts().await?, "name")?;
    let both = json!({"name": "test_prompt_with_arguments", "arguments": {"arg1": "a", "arg2": "b"}});
    report["prompt"] = prompt(client, both).await?["text"].take();
    let of_resource = json!({"name": "test_prompt_with_embedded_resource", "arguments": {"resourceUri": "test://x"}});
    report["prompt_of_resource"] = prompt(client, of_resource).await?["resource"]["uri"].take();
    let one = json!({"name": "test_prompt_with_arguments", "arguments": {"arg1": "a"}});
    report["missing_argument"] = code(client.get_prompt(from(one)?).await);
    report["completed"] = json!(client.complete_prompt_simple("test_prompt_with_arguments", "arg1", "par").await?);
    let context = from(json!({"arguments": {"arg1": "paris"}}))?;
    let in_context = client.complete_prompt_argument("test_prompt_with_arguments", "arg2", "", Some(context)).await?;
    report["completed_in_context"] = json!(in_context.values);
    Ok(())
}

async fn changes_by_session(client: &Client, handler: &Handler) -> Result<Value, Failure> {
    client.subscribe(from(json!({"uri": WATCHED}))?).await?;
    for name in CHANGES {
        call(client, name, json!({})).await?;
    }
    until(handler, |seen| seen.changes.len() >= CHANGES.len()).await;
    client.unsubscribe(from(json!({"uri": WATCHED}))?).await?;
    Ok(handler.seen(|seen| json!(seen.changes)))
}

async fn changes_by_stream(client: &Client) -> Result<Value, Failure> {
    let filter = json!({"toolsListChanged": true, "promptsListChanged": true, "resourceSubscriptions": [WATCHED]});
    let mut stream = client.listen(from(filter)?).await?;
    for name in CHANGES {
        call(client, name, json!({})).await?;
    }
    let mut changes = std::collections::BTreeSet::new();
    while changes.len() < CHANGES.len() {
        changes.insert(match stream.next().await?.ok_or("the stream ended")? {
            ServerNotification::ToolListChangedNotification(_) => "tools".to_string(),
            ServerNotification::PromptListChangedNotification(_) => "prompts".to_string(),
            ServerNotification::ResourceUpdatedNotification(updated) => updated.params.uri,
            other => format!("{other:?}"),
        });
    }
    stream.cancel().await?;
    Ok(json!(changes))
}

async fn call(client: &Client, name: &'static str, arguments: Value) -> Result<Value, Failure> {
    Ok(serde_json::to_value(client.call_tool(tool(name, arguments)?).await?)?)
}

async fn text(client: &Client, name: &'static str, arguments: Value) -> Result<Value, Failure> {
    let mut result = call(client, name, arguments).await?;
    if result["isError"] == json!(true) {
        return Err(format!("{name}: {result}").into());
    }
    Ok(result["content"][0]["text"].take())
}

/// What the prompt's first message holds.
async fn prompt(client: &Client, params: Value) -> Result<Value, Failure> {
    Ok(serde_json::to_value(client.get_prompt(from(params)?).await?)?["messages"][0]["content"].take())
}

async fn read(client: &Client, uri: &str) -> Result<Value, Failure> {
    Ok(serde_json::to_value(client.read_resource(from(json!({"uri": uri}))?).await?)?["contents"][0].take())
}

fn tool(name: &'static str, arguments: Value) -> Result<CallToolRequestParams, Failure> {
    Ok(CallToolRequestParams::new(name).with_arguments(from(arguments)?))
}

fn from<T: DeserializeOwned>(value: Value) -> Result<T, Failure> {
    Ok(serde_json::from_value(value)?)
}

fn parsed(text: &Value) -> Result<Value, Failure> {
    Ok(serde_json::from_str(text.as_str().ok_or("no text")?)?)
}

/// One member of each.
fn names(list: impl Serialize, member: &str) -> Result<Value, Failure> {
    let list = serde_json::to_value(list)?;
    Ok(list.as_array().ok_or("no list")?.iter().map(|one| one[member].clone()).collect())
}

/// The code of the error that it must have failed with.
fn code<T: std::fmt::Debug>(result: Result<T, ServiceError>) -> Value {
    match result {
        Err(ServiceError::McpError(error)) => json!(error.code),
        other => json!(format!("no error: {other:?}")),
    }
}

async fn until(handler: &Handler, reached: impl Fn(&Seen) -> bool) {
    let waiting = async {
        while !handler.seen(|seen| reached(seen)) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let _ = tokio::time::timeout(Duration::from_secs(20), waiting).await;
}
