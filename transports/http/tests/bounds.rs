//! Clients that are slow, that never end, and too many; and the server's own end.

mod support;

use std::time::Duration;

use deskhand_http::{Doors, Limits};
use serde_json::json;
use support::{Server, call, legacy_call, request};

fn quick() -> Limits {
    let short = Duration::from_millis(200);
    Limits { head_timeout: short, body_timeout: short, ..Limits::default() }
}

#[tokio::test]
async fn a_head_that_never_ends() {
    let server = Server::with(Doors::default(), quick());
    let mut slow = server.client().await;
    slow.write(b"POST /mcp HTTP/1.1\r\nHost: local").await.unwrap();
    assert!(slow.is_closed().await);
    let mut large = server.client().await;
    large.write(b"POST /mcp HTTP/1.1\r\nHost: localhost\r\n").await.unwrap();
    for _ in 0..1000 {
        if large.write(format!("X-A: {}\r\n", "a".repeat(90)).as_bytes()).await.is_err() {
            break;
        }
    }
    assert!(large.is_closed().await);
    assert_eq!(server.client().await.post(call(json!(1), "echo", json!({}))).await.status, 200);
}

#[tokio::test]
async fn a_body_that_never_ends() {
    let server = Server::with(Doors::default(), quick());
    let mut slow = server.client().await;
    let whole = request("POST", "/mcp", &[], Some(&[b' '; 100]));
    slow.write(&whole[..whole.len() - 1]).await.unwrap();
    let answer = slow.answer().await;
    assert_eq!((answer.status, answer.header("connection")), (408, Some("close")));
    assert!(slow.is_closed().await);
    // Not HTTP at all.
    let mut noise = server.client().await;
    noise.write(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n").await.unwrap();
    assert!(noise.is_closed().await);
}

#[tokio::test]
async fn a_reader_that_reads_nothing() {
    let limits = Limits { stream_queue: 64 << 10, replay: 256 << 10, ..Limits::default() };
    let server = Server::with(Doors::default(), limits);
    // Stateless: with its connection goes its call.
    let mut slow = server.slow_client().await;
    slow.post_only(call(json!(1), "steps", json!({"count": 400, "bytes": 50_000}))).await;
    assert!(slow.is_closed().await);
    // In a session the connection ends, and the session goes on.
    let mut client = server.client().await;
    let session = client.initialize("2025-11-25").await;
    let mut flooded = server.slow_client().await;
    let call = legacy_call(2, "hold", json!({"text": "flood", "count": 1, "after": 400, "bytes": 50_000}));
    assert!(flooded.in_session(&session, &call).await.is_events());
    server.held.release("flood").await;
    assert!(flooded.is_gone().await);
    assert_eq!(client.in_session(&session, &json!({"jsonrpc": "2.0", "id": 3, "method": "ping"})).await.status, 200);
    // What is kept has a bound: the start is lost, the answer isn't.
    let refused = client.listen(&session, Some("1-0")).await;
    assert!(matches!(refused.status, 400), "{refused:?}");
}

#[tokio::test]
async fn a_large_answer_that_nobody_reads() {
    let server = Server::with(Doors::default(), Limits { write_timeout: Duration::from_millis(300), ..Limits::default() });
    let mut slow = server.slow_client().await;
    slow.post_only(call(json!(1), "picture", json!({"bytes": 30_000_000}))).await;
    assert!(slow.is_gone().await);
}

#[tokio::test]
async fn more_connections_than_there_may_be() {
    let server = Server::with(Doors::default(), Limits { connections: 3, ..Limits::default() });
    let mut idle = server.client().await;
    assert_eq!(idle.post(call(json!(1), "echo", json!({}))).await.status, 200);
    let mut busy = Vec::new();
    for name in ["a", "b"] {
        let mut client = server.client().await;
        client.post_only(call(json!(1), "hold", json!({"text": name, "count": 0}))).await;
        server.held.is_held(name).await;
        busy.push(client);
    }
    // The idle one gives way.
    let mut third = server.client().await;
    third.post_only(call(json!(1), "hold", json!({"text": "c", "count": 0}))).await;
    server.held.is_held("c").await;
    assert!(idle.is_closed().await);
    // Now nobody can, until one is done.
    let mut fourth = server.client().await;
    fourth.post_only(call(json!(4), "echo", json!({"text": "late"}))).await;
    server.held.release("a").await;
    assert_eq!(busy[0].answer().await.status, 200);
    assert_eq!(fourth.answer().await.json()["result"]["structuredContent"]["text"], "late");
}

#[tokio::test]
async fn the_end_answers_what_is_under_way() {
    let mut server = Server::start();
    let mut client = server.client().await;
    let session = client.initialize("2025-11-25").await;
    let mut stream = server.client().await;
    assert!(stream.listen(&session, None).await.is_events());
    stream.event().await.unwrap();
    let (mut one, mut two) = (server.client().await, server.client().await);
    one.post_only(call(json!(1), "hold", json!({"text": "one", "count": 0}))).await;
    two.in_session_only(&session, &legacy_call(2, "hold", json!({"text": "two", "count": 0}))).await;
    server.held.is_held("one").await;
    server.held.is_held("two").await;
    let address = server.address;
    server.ask_to_end();
    assert_eq!(one.answer().await.json()["result"]["isError"], true);
    assert_eq!(two.answer().await.json()["result"]["isError"], true);
    assert_eq!(stream.event().await, None);
    assert!(one.is_closed().await && two.is_closed().await && client.is_closed().await);
    server.ended().await;
    assert!(tokio::net::TcpStream::connect(address).await.is_err());
}

#[tokio::test]
async fn silence_on_a_stream_is_broken_by_comments() {
    let server = Server::with(Doors::default(), Limits { keep_alive: Duration::from_millis(50), ..Limits::default() });
    let mut client = server.client().await;
    assert!(client.post(call(json!(1), "hold", json!({"text": "quiet", "count": 1}))).await.is_events());
    client.event().await.unwrap();
    assert!(client.event().await.unwrap().comment && client.event().await.unwrap().comment);
    server.held.release("quiet").await;
    let mut last = client.event().await.unwrap();
    while let Some(event) = client.event().await {
        last = event;
    }
    assert_eq!(last.json()["id"], 1);
}
