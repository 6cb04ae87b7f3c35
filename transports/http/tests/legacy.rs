//! Sessions: their life, their streams, and what a client that comes back finds.

mod support;

use deskhand_http::{Doors, Limits};
use serde_json::{Value, json};
use support::{Server, initialize, legacy_call};

const NEW: &str = "2025-11-25";

fn ping(id: u64) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": "ping"})
}

#[tokio::test]
async fn a_session_lives_and_ends() {
    let server = Server::start();
    let mut client = server.client().await;
    let session = client.initialize(NEW).await;
    assert!(session.len() == 32 && session.bytes().all(|b| b.is_ascii_hexdigit()));
    let answer = client.in_session(&session, &ping(7)).await;
    assert_eq!((answer.status, answer.json()), (200, json!({"jsonrpc": "2.0", "id": 7, "result": {}})));
    assert_eq!(client.ask("POST", "/mcp", &[], Some(ping(1).to_string().as_bytes())).await.status, 400);
    assert_eq!(client.in_session("0123456789abcdef0123456789abcdef", &ping(1)).await.status, 404);
    for (version, status) in [("2025-11-25", 200), ("2025-03-26", 200), ("1999-01-01", 400)] {
        let headers = [("Mcp-Session-Id", session.as_str()), ("MCP-Protocol-Version", version)];
        assert_eq!(client.ask("POST", "/mcp", &headers, Some(ping(1).to_string().as_bytes())).await.status, status, "{version}");
    }
    // An answer to a request of ours.
    assert_eq!(client.in_session(&session, &json!({"jsonrpc": "2.0", "id": 1, "result": {}})).await.status, 202);
    let answer = client.in_session(&session, &legacy_call(1, "none", json!({}))).await;
    assert_eq!((answer.status, answer.json()["error"]["code"].as_i64()), (200, Some(-32602)));
    assert_eq!(client.ask("DELETE", "/mcp", &[("Mcp-Session-Id", &session)], None).await.status, 204);
    assert_eq!(client.in_session(&session, &ping(1)).await.status, 404);
    assert_eq!(client.ask("DELETE", "/mcp", &[("Mcp-Session-Id", &session)], None).await.status, 404);
    assert_eq!(client.listen(&session, None).await.status, 404);
}

#[tokio::test]
async fn an_initialize_that_fails_leaves_nothing() {
    let server = Server::start();
    let mut client = server.client().await;
    let bad = br#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":7}}"#;
    let answer = client.ask("POST", "/mcp", &[], Some(bad)).await;
    assert_eq!((answer.status, answer.header("mcp-session-id")), (200, None));
    assert_eq!(answer.json()["error"]["code"], -32602);
}

#[tokio::test]
async fn progress_makes_it_a_stream_that_primes() {
    let server = Server::start();
    let mut client = server.client().await;
    let session = client.initialize(NEW).await;
    let call = legacy_call(5, "steps", json!({"count": 2}));
    assert!(client.in_session(&session, &call).await.is_events());
    let first = client.event().await.unwrap();
    assert_eq!((first.data.as_deref(), first.id.is_some()), (Some(""), true));
    let mut ids = vec![first.id];
    for step in 1..=2 {
        let event = client.event().await.unwrap();
        assert_eq!(event.json()["params"]["progress"], f64::from(step));
        ids.push(event.id);
    }
    let last = client.event().await.unwrap();
    assert_eq!(last.json()["id"], 5);
    assert_eq!(client.event().await, None);
    // All of it again, or what followed.
    assert!(client.listen(&session, ids[1].as_deref()).await.is_events());
    assert_eq!(client.event().await.unwrap().id, ids[2]);
    assert_eq!(client.event().await.unwrap(), last);
    assert_eq!(client.event().await, None);
    for unknown in ["99-0", "x", "1-99", ""] {
        let status = client.listen(&session, Some(unknown).filter(|u| !u.is_empty()).or(Some("0-9"))).await.status;
        assert_eq!(status, 400, "{unknown}");
    }
    // Older revisions know no priming event: to their clients an empty one is broken JSON.
    let old = client.initialize("2025-06-18").await;
    assert!(client.in_session(&old, &call).await.is_events());
    assert_eq!(client.event().await.unwrap().json()["params"]["progress"], 1.0);
}

#[tokio::test]
async fn a_client_that_leaves_cancels_nothing_and_may_come_back() {
    let server = Server::start();
    let mut client = server.client().await;
    let session = client.initialize(NEW).await;
    let mut reads = server.client().await;
    assert!(reads.in_session(&session, &legacy_call(1, "hold", json!({"text": "read", "count": 1}))).await.is_events());
    reads.event().await.unwrap();
    let last = reads.event().await.unwrap().id.unwrap();
    let mut waits = server.client().await;
    waits.in_session_only(&session, &legacy_call(2, "hold", json!({"text": "wait", "count": 0}))).await;
    server.held.is_held("wait").await;
    drop((reads, waits));
    server.held.release("read").await;
    server.held.release("wait").await;
    assert!(!server.held.is_cancelled("read") && !server.held.is_cancelled("wait"));
    assert!(client.listen(&session, Some(&last)).await.is_events());
    assert_eq!(client.event().await.unwrap().json()["params"]["message"], "after");
    assert_eq!(client.event().await.unwrap().json()["id"], 1);
    assert_eq!(client.event().await, None);
}

#[tokio::test]
async fn a_stream_is_taken_over_while_it_goes_on() {
    let server = Server::start();
    let mut client = server.client().await;
    let session = client.initialize(NEW).await;
    assert!(client.in_session(&session, &legacy_call(1, "hold", json!({"text": "x", "count": 2}))).await.is_events());
    let primed = client.event().await.unwrap().id.unwrap();
    let mut other = server.client().await;
    assert!(other.listen(&session, Some(&primed)).await.is_events());
    assert_eq!(other.event().await.unwrap().json()["params"]["progress"], 1.0);
    // The first one's stream ends; what it had been handed before it may still read.
    while client.event().await.is_some() {}
    server.held.release("x").await;
    let mut last = other.event().await.unwrap();
    while let Some(event) = other.event().await {
        last = event;
    }
    assert_eq!(last.json()["id"], 1);
}

#[tokio::test]
async fn a_handler_lets_the_client_poll() {
    let server = Server::start();
    let mut client = server.client().await;
    for count in [0, 1] {
        let session = client.initialize(NEW).await;
        let name = format!("poll{count}");
        let call = legacy_call(1, "hold", json!({"text": name, "count": count, "retry": 50}));
        assert!(client.in_session(&session, &call).await.is_events());
        let mut last = client.event().await.unwrap();
        let primed = last.id.clone();
        assert_eq!(last.data.as_deref(), Some(""));
        for _ in 0..count {
            last = client.event().await.unwrap();
        }
        let pause = client.event().await.unwrap();
        assert_eq!((pause.retry, pause.data), (Some(50), None));
        assert_eq!(client.event().await, None);
        let _ = primed;
        // Waits for it, or finds it.
        if count == 0 {
            server.held.release(&name).await;
            assert!(client.listen(&session, last.id.as_deref()).await.is_events());
        } else {
            assert!(client.listen(&session, last.id.as_deref()).await.is_events());
            server.held.release(&name).await;
            assert_eq!(client.event().await.unwrap().json()["params"]["message"], "after");
        }
        assert_eq!(client.event().await.unwrap().json()["result"]["structuredContent"]["held"], name.as_str());
        assert_eq!(client.event().await, None);
    }
    // Older clients would take the end for a loss.
    let old = client.initialize("2025-06-18").await;
    client.in_session_only(&old, &legacy_call(1, "hold", json!({"text": "old", "count": 0, "retry": 50}))).await;
    server.held.release("old").await;
    assert_eq!(client.answer().await.json()["id"], 1);
}

#[tokio::test]
async fn one_get_at_a_time() {
    let server = Server::start();
    let mut client = server.client().await;
    let session = client.initialize(NEW).await;
    let mut stream = server.client().await;
    assert!(stream.listen(&session, None).await.is_events());
    let primed = stream.event().await.unwrap();
    assert_eq!(primed.id.as_deref(), Some("0-0"));
    assert_eq!(client.listen(&session, None).await.status, 409);
    assert_eq!(client.ask("GET", "/mcp", &[("Mcp-Session-Id", &session), ("Accept", "application/json")], None).await.status, 406);
    // Whoever names an event of it takes it over.
    let mut again = server.client().await;
    assert!(again.listen(&session, Some("0-0")).await.is_events());
    assert_eq!(stream.event().await, None);
    assert_eq!(client.ask("DELETE", "/mcp", &[("Mcp-Session-Id", &session)], None).await.status, 204);
    assert_eq!(again.event().await, None);
}

#[tokio::test]
async fn a_cancelled_request_is_let_go() {
    let server = Server::start();
    let (mut client, mut waits, mut stays) = (server.client().await, server.client().await, server.client().await);
    let session = client.initialize(NEW).await;
    waits.in_session_only(&session, &legacy_call(1, "hold", json!({"text": "c", "count": 0}))).await;
    stays.in_session_only(&session, &legacy_call(2, "hold", json!({"text": "d", "count": 0}))).await;
    server.held.is_held("c").await;
    server.held.is_held("d").await;
    let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}});
    assert_eq!(client.in_session(&session, &cancel).await.status, 202);
    server.held.was_cancelled("c").await;
    let answer = waits.answer().await;
    assert!(answer.is_events());
    assert_eq!(waits.in_session(&session, &ping(3)).await.status, 200);
    server.held.release("d").await;
    assert_eq!(stays.answer().await.json()["id"], 2);
}

#[tokio::test]
async fn batches() {
    let server = Server::start();
    let mut client = server.client().await;
    let session = client.initialize("2025-03-26").await;
    let notification = json!({"jsonrpc": "2.0", "method": "notifications/x"});
    let answer = client.in_session(&session, &json!([ping(1), notification, ping(2)])).await;
    assert_eq!((answer.status, answer.json().as_array().map(Vec::len)), (200, Some(2)));
    assert_eq!(client.in_session(&session, &json!([notification])).await.status, 202);
    let answer = client.in_session(&session, &json!([])).await;
    assert_eq!(answer.json()["error"]["code"], -32600);
    assert!(client.in_session(&session, &json!([legacy_call(3, "steps", json!({"count": 1})), ping(4)])).await.is_events());
    assert_eq!(client.event().await.unwrap().json()["method"], "notifications/progress");
    assert_eq!(client.event().await.unwrap().json().as_array().map(Vec::len), Some(2));
    assert_eq!(client.event().await, None);
    let other = client.initialize(NEW).await;
    let answer = client.in_session(&other, &json!([ping(1)])).await;
    assert_eq!(answer.json()["error"]["code"], -32600);
}

#[tokio::test]
async fn the_oldest_idle_session_gives_way() {
    let server = Server::with(Doors::default(), Limits { sessions: 2, ..Limits::default() });
    let mut client = server.client().await;
    let (mut stream, mut waits) = (server.client().await, server.client().await);
    let one = client.initialize(NEW).await;
    let two = client.initialize(NEW).await;
    assert!(stream.listen(&one, None).await.is_events());
    let three = client.initialize(NEW).await;
    assert_eq!(client.in_session(&two, &ping(1)).await.status, 404);
    assert_eq!(client.in_session(&one, &ping(1)).await.status, 200);
    waits.in_session_only(&three, &legacy_call(1, "hold", json!({"text": "busy", "count": 0}))).await;
    server.held.is_held("busy").await;
    let answer = client.ask("POST", "/mcp", &[], Some(&initialize(NEW))).await;
    assert_eq!(answer.status, 503);
    assert!(answer.header("retry-after").is_some());
}

#[tokio::test]
async fn an_idle_session_ends() {
    let limits = Limits { session_idle: std::time::Duration::from_millis(300), ..Limits::default() };
    let server = Server::with(Doors::default(), limits);
    let (mut client, mut stream) = (server.client().await, server.client().await);
    let (idle, used) = (client.initialize(NEW).await, client.initialize(NEW).await);
    assert!(stream.listen(&used, None).await.is_events());
    let ended = |core: &deskhand_core::Core| core.session_revision(deskhand_core::Conn(1)).is_none();
    assert!(support::within(async {
        while !server.driver.look(ended) {
            tokio::task::yield_now().await;
        }
        true
    })
    .await);
    assert_eq!(client.in_session(&idle, &ping(1)).await.status, 404);
    assert_eq!(client.in_session(&used, &ping(1)).await.status, 200);
}
