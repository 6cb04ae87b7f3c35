//! The stateless revision: every POST stands for itself.

mod support;

use std::sync::Arc;

use serde_json::{Value, json};
use support::{Client, MODERN, Server, call, modern, request, within};
use tokio::task::JoinSet;

#[tokio::test]
async fn an_answer_is_one_json_text() {
    let server = Server::start();
    let mut client = server.client().await;
    let answer = client.post(call(json!("a"), "echo", json!({"text": "hello"}))).await;
    assert_eq!((answer.status, answer.header("content-type")), (200, Some("application/json")));
    assert!(answer.header("content-length").is_some() && answer.header("mcp-session-id").is_none());
    assert_eq!(answer.json()["id"], "a");
    assert_eq!(answer.json()["result"]["structuredContent"]["text"], "hello");
    // In many pieces.
    for size in [10, 5_000, 3_000_000] {
        let answer = client.post(call(json!(2), "picture", json!({"bytes": size}))).await;
        let answer = answer.json();
        let image = answer["result"]["content"].as_array().unwrap().iter().find(|c| c["type"] == "image").unwrap();
        assert_eq!(image["data"].as_str().map(str::len), Some(size), "{size}");
    }
    // Refused by the revision's rules, and by the machine.
    let answer = client.post(modern(json!(3), "ping", json!({}))).await;
    assert_eq!((answer.status, answer.json()["error"]["code"].as_i64()), (404, Some(-32601)));
    let (_, body) = call(json!(4), "echo", json!({}));
    let answer = client.ask("POST", "/mcp", &[("MCP-Protocol-Version", MODERN), ("Mcp-Method", "tools/call"), ("Mcp-Name", "hold")], Some(&body)).await;
    assert_eq!((answer.status, answer.json()["error"]["code"].as_i64(), answer.json()["id"].as_i64()), (400, Some(-32020), Some(4)));
    // A notification.
    let notification = br#"{"jsonrpc":"2.0","method":"notifications/x"}"#;
    let answer = client.ask("POST", "/mcp", &[("MCP-Protocol-Version", MODERN)], Some(notification)).await;
    assert_eq!((answer.status, answer.body.len()), (202, 0));
}

#[tokio::test]
async fn notifications_make_it_a_stream() {
    let server = Server::start();
    let mut client = server.client().await;
    let answer = client.post(call(json!(1), "steps", json!({"count": 3, "bytes": 6000}))).await;
    assert_eq!(answer.status, 200);
    assert!(answer.is_events());
    assert_eq!(answer.header("cache-control"), Some("no-store"));
    assert_eq!(answer.header("x-accel-buffering"), Some("no"));
    for step in 1..=3 {
        let event = client.event().await.unwrap();
        assert_eq!((event.id.clone(), event.json()["params"]["progress"].as_f64()), (None, Some(f64::from(step))));
    }
    assert_eq!(client.event().await.unwrap().json()["result"]["structuredContent"]["done"], true);
    assert_eq!(client.event().await, None);
    // The connection goes on.
    assert_eq!(client.post(call(json!(2), "echo", json!({}))).await.status, 200);
}

#[tokio::test]
async fn a_client_that_leaves_cancels() {
    let server = Server::start();
    let (mut waits, mut reads, mut stays) = (server.client().await, server.client().await, server.client().await);
    waits.post_only(call(json!(1), "hold", json!({"text": "waits", "count": 0}))).await;
    assert!(reads.post(call(json!(1), "hold", json!({"text": "reads", "count": 1}))).await.is_events());
    stays.post_only(call(json!(1), "hold", json!({"text": "stays", "count": 0}))).await;
    for name in ["waits", "reads", "stays"] {
        server.held.is_held(name).await;
    }
    drop(waits);
    server.held.was_cancelled("waits").await;
    drop(reads);
    server.held.was_cancelled("reads").await;
    server.held.release("stays").await;
    assert_eq!(stays.answer().await.json()["result"]["structuredContent"]["held"], "stays");
    assert!(!server.held.is_cancelled("stays"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn equal_ids_never_meet() {
    let server = Arc::new(Server::start());
    let mut clients = JoinSet::new();
    for number in 0..24 {
        let server = server.clone();
        clients.spawn(async move {
            let mut client = server.client().await;
            let session = if number % 2 == 0 { Some(client.initialize("2025-06-18").await) } else { None };
            for round in 0..40 {
                let nonce = format!("{number}/{round}");
                let answer = match &session {
                    Some(session) => {
                        let message = json!({"jsonrpc": "2.0", "id": 0, "method": "tools/call", "params": {"name": "echo", "arguments": {"text": nonce}}});
                        client.in_session(session, &message).await
                    }
                    None => client.post(call(json!(0), "echo", json!({"text": nonce}))).await,
                };
                assert_eq!(answer.json()["id"], 0);
                assert_eq!(answer.json()["result"]["structuredContent"]["text"], nonce.as_str());
            }
        });
    }
    while let Some(done) = clients.join_next().await {
        done.unwrap();
    }
    // And held at the same time, released in another order.
    let mut waiting = Vec::new();
    for number in 0..8 {
        let mut client = server.client().await;
        client.post_only(call(json!(0), "hold", json!({"text": format!("h{number}"), "count": 0}))).await;
        waiting.push(client);
    }
    for (number, client) in waiting.iter_mut().enumerate().rev() {
        server.held.release(&format!("h{number}")).await;
        assert_eq!(client.answer().await.json()["result"]["structuredContent"]["held"], format!("h{number}"));
    }
}

#[tokio::test]
async fn a_pipelined_request_is_answered_in_its_turn() {
    let server = Server::start();
    let mut client = server.client().await;
    client.post_only(call(json!(1), "hold", json!({"text": "one", "count": 0}))).await;
    client.post_only(call(json!(2), "echo", json!({"text": "two"}))).await;
    server.held.release("one").await;
    assert_eq!(client.answer().await.json()["id"], 1);
    assert_eq!(client.answer().await.json()["id"], 2);
}

#[tokio::test]
async fn subscriptions_stream_until_the_end() {
    let mut server = Server::start();
    let mut client = server.client().await;
    let answer = client.post(modern(json!("s"), "subscriptions/listen", json!({"notifications": {"toolsListChanged": true}}))).await;
    assert!(answer.is_events());
    let first = client.event().await.unwrap().json();
    assert_eq!(first["method"], "notifications/subscriptions/acknowledged");
    server.ask_to_end();
    let last: Value = client.event().await.unwrap().json();
    assert_eq!((&last["id"], &last["result"]["resultType"]), (&json!("s"), &json!("complete")));
    assert_eq!(client.event().await, None);
    server.ended().await;
}

#[tokio::test]
async fn on_a_unix_socket() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
    let _server = Server::on(|_| Some(deskhand_http::Listener::Unix(listener)), Default::default(), Default::default());
    let mut client = Client::new(within(tokio::net::UnixStream::connect(&path)).await.unwrap());
    assert_eq!(client.post(call(json!(1), "echo", json!({}))).await.status, 200);
    // Any Host, but not any Origin.
    let session = client.initialize_with("2025-11-25", &[("Host", "any.example")]).await;
    assert_eq!(session.len(), 32);
    client.write(&request("POST", "/mcp", &[("Origin", "https://evil.example")], Some(b"{}"))).await.unwrap();
    assert_eq!(client.answer().await.status, 403);
}
