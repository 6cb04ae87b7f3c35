//! What a request must pass before anything is done, each with its status.

mod support;

use std::num::NonZeroU32;

use deskhand_http::{Doors, Limits, Tokens};
use serde_json::json;
use support::{Client, MODERN, Server, call, initialize, request};

async fn status(client: &mut Client, method: &str, path: &str, headers: &[(&str, &str)], body: Option<&[u8]>) -> u16 {
    let answer = client.ask(method, path, headers, body).await;
    if answer.status >= 400 {
        let said = answer.json();
        assert!(said.get("id").is_none() && said["error"]["message"].is_string(), "{said}");
    }
    answer.status
}

#[tokio::test]
async fn hosts_and_origins() {
    let doors = Doors { allowed_hosts: vec!["desk.example".into()], allowed_origins: vec!["https://app.example".into()], ..Doors::default() };
    let server = Server::with(doors, Limits::default());
    let mut client = server.client().await;
    let body = initialize("2025-11-25");
    let local = format!("127.0.0.1:{}", server.address.port());
    for host in ["localhost", "localhost:1", &local, "[::1]:5", "desk.example"] {
        assert_eq!(status(&mut client, "POST", "/mcp", &[("Host", host)], Some(&body)).await, 200, "{host}");
    }
    for host in ["evil.example", "localhost.evil.example", "desk.example.evil", "127.0.0.1.evil.example:80", "10.0.0.1"] {
        assert_eq!(status(&mut client, "POST", "/mcp", &[("Host", host)], Some(&body)).await, 403, "{host}");
    }
    for origin in ["http://localhost:3000", "https://127.0.0.1", "https://app.example"] {
        let answer = client.ask("POST", "/mcp", &[("Origin", origin)], Some(&body)).await;
        assert_eq!((answer.status, answer.header("access-control-allow-origin")), (200, Some(origin)));
    }
    for origin in ["https://evil.example", "null", "http://localhost.evil.example", "http://app.example", "file://"] {
        let answer = client.ask("POST", "/mcp", &[("Origin", origin)], Some(&body)).await;
        assert_eq!((answer.status, answer.header("access-control-allow-origin")), (403, None), "{origin}");
        assert!(!String::from_utf8(answer.body).unwrap().contains("evil"), "what came isn't told again");
    }
    // Without an Origin there are no CORS headers.
    let answer = client.ask("POST", "/mcp", &[], Some(&body)).await;
    assert!(answer.headers.iter().all(|(n, _)| !n.starts_with("access-control")));
    // Whole URLs name a host, too; none at all and two are no host.
    assert_eq!(status(&mut client, "POST", "http://evil.example/mcp", &[], Some(&body)).await, 403);
    assert_eq!(status(&mut client, "POST", "/mcp", &[("Host", "")], Some(&body)).await, 400);
    assert_eq!(status(&mut server.client().await, "POST", "/mcp", &[("Host", "localhost"), ("Host", "evil.example")], Some(&body)).await, 400);
}

#[tokio::test]
async fn preflight() {
    let server = Server::start();
    let mut client = server.client().await;
    let (origin, method) = (("Origin", "http://localhost:1"), ("Access-Control-Request-Method", "POST"));
    let asks = [origin, method, ("Access-Control-Request-Headers", "authorization,mcp-param-region,x-evil")];
    let answer = client.ask("OPTIONS", "/mcp", &asks, None).await;
    assert_eq!(answer.status, 204);
    let allowed = answer.header("access-control-allow-headers").unwrap();
    assert!(allowed.contains("Authorization") && allowed.contains("mcp-param-region") && !allowed.contains("evil"), "{allowed}");
    assert_eq!(answer.header("access-control-allow-origin"), Some("http://localhost:1"));
    assert_eq!(status(&mut client, "OPTIONS", "/mcp", &[("Origin", "https://evil.example")], None).await, 403);
    assert_eq!(status(&mut client, "OPTIONS", "/mcp", &[], None).await, 405);
}

#[tokio::test]
async fn paths_methods_and_forms() {
    let server = Server::with(Doors::default(), Limits { body: 1000, ..Limits::default() });
    let mut client = server.client().await;
    let body = initialize("2025-11-25");
    for path in ["/", "/mcp/", "/mcp/none", "/MCP", "//mcp", "/.well-known/oauth-protected-resource", "/mcp%00"] {
        assert_eq!(status(&mut client, "POST", path, &[], Some(&body)).await, 404, "{path}");
    }
    assert_eq!(status(&mut client, "POST", "/mcp/test?token=x", &[], Some(&body)).await, 200);
    for method in ["GET", "DELETE"] {
        let answer = client.ask(method, "/mcp", &[], None).await;
        assert_eq!((answer.status, answer.header("allow")), (405, Some("POST")), "{method}");
        let modern = [("Mcp-Session-Id", "x"), ("MCP-Protocol-Version", MODERN)];
        assert_eq!(status(&mut client, method, "/mcp", &modern, None).await, 405);
    }
    assert_eq!(status(&mut client, "PUT", "/mcp", &[], Some(&body)).await, 405);
    for kind in ["text/plain", "", "application/jsonx"] {
        assert_eq!(status(&mut client, "POST", "/mcp", &[("Content-Type", kind)], Some(&body)).await, 415, "{kind}");
    }
    assert_eq!(status(&mut client, "POST", "/mcp", &[("Content-Encoding", "gzip")], Some(&body)).await, 415);
    for accept in ["application/json", "text/event-stream", "", "text/html", "*/*, application/json;q=0"] {
        assert_eq!(status(&mut client, "POST", "/mcp", &[("Accept", accept)], Some(&body)).await, 406, "{accept}");
    }
    assert_eq!(status(&mut client, "POST", "/mcp", &[("Accept", "*/*")], Some(&body)).await, 200);
    let answer = client.ask("POST", "/mcp", &[], Some(b"{\"jsonrpc\":")).await;
    assert_eq!((answer.status, answer.json()["error"]["code"].as_i64()), (400, Some(-32700)));
    assert_eq!(client.ask("POST", "/mcp", &[], Some(b"")).await.status, 400);
    // Known to be too large from its head; and only once it has come.
    let mut large = server.client().await;
    large.write(&request("POST", "/mcp", &[("Content-Length", "1001")], None)).await.unwrap();
    assert_eq!(large.answer().await.status, 413);
    assert!(large.is_closed().await);
    let mut endless = server.client().await;
    endless.write(&request("POST", "/mcp", &[("Transfer-Encoding", "chunked")], None)).await.unwrap();
    for _ in 0..20 {
        let _ = endless.write(format!("64\r\n{}\r\n", " ".repeat(100)).as_bytes()).await;
    }
    assert_eq!(endless.answer().await.status, 413);
}

#[tokio::test]
async fn tokens() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tokens");
    let mine = Tokens::load_or_create(&path).unwrap();
    let (first, second) = (mine.token("default").unwrap(), mine.add("second").unwrap());
    let issuer = Some("https://issuer.example".into());
    let doors = Doors { tokens: Some(Tokens::load(&path).unwrap()), authorization_server: issuer, ..Doors::default() };
    let server = Server::with(doors, Limits::default());
    let mut client = server.client().await;
    let body = initialize("2025-11-25");
    let good = format!("Bearer {}", first.expose());
    let other = format!("bearer {}", second.expose());
    for wrong in ["", "Bearer", "Bearer x", &format!("{good}x"), &good[..good.len() - 1], &format!("Basic {}", first.expose())] {
        let answer = client.ask("POST", "/mcp", &[("Authorization", wrong)], Some(&body)).await;
        assert_eq!(answer.status, 401, "{wrong}");
        let challenge = answer.header("www-authenticate").unwrap();
        let about = "resource_metadata=\"http://localhost/.well-known/oauth-protected-resource/mcp\"";
        assert!(challenge.starts_with("Bearer ") && challenge.contains(about), "{challenge}");
        assert_eq!(challenge.contains("invalid_token"), wrong.len() > 7 && wrong.starts_with("Bearer"));
    }
    assert_eq!(client.ask("POST", &format!("/mcp?access_token={}", first.expose()), &[], Some(&body)).await.status, 401);
    // The doors stand in their order.
    assert_eq!(client.ask("POST", "/mcp", &[("Origin", "null")], Some(&body)).await.status, 403);
    assert_eq!(client.ask("PUT", "/mcp", &[], Some(&body)).await.status, 401);
    let document = client.ask("GET", "/.well-known/oauth-protected-resource/mcp", &[], None).await;
    assert_eq!(document.status, 200);
    assert_eq!(document.json()["resource"], "http://localhost/mcp");
    assert_eq!(document.json()["authorization_servers"], json!(["https://issuer.example"]));
    // A session is its principal's, and its mount's.
    let session = client.initialize_with("2025-11-25", &[("Authorization", &good)]).await;
    let ping = br#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
    for (path, token, status) in [("/mcp", &good, 200), ("/mcp/test", &good, 200), ("/mcp", &other, 404), ("/other", &good, 404)] {
        let answer = client.ask("POST", path, &[("Authorization", token), ("Mcp-Session-Id", &session)], Some(ping)).await;
        assert_eq!(answer.status, status, "{path}");
    }
    // A removed token's streams and sessions end, others' don't.
    let theirs = server.client().await.initialize_with("2025-11-25", &[("Authorization", &other)]).await;
    let mut stream = server.client().await;
    let headers = [("Authorization", good.as_str()), ("Mcp-Session-Id", session.as_str()), ("Accept", "text/event-stream")];
    assert_eq!(stream.ask("GET", "/mcp", &headers, None).await.status, 200);
    mine.remove("default").unwrap();
    assert!(stream.is_closed().await);
    let mut client = server.client().await;
    assert_eq!(client.ask("POST", "/mcp", &[("Authorization", &good), ("Mcp-Session-Id", &session)], Some(ping)).await.status, 401);
    assert_eq!(client.ask("POST", "/mcp", &[("Authorization", &other), ("Mcp-Session-Id", &theirs)], Some(ping)).await.status, 200);
}

#[tokio::test]
async fn a_principal_has_a_rate() {
    let server = Server::with(Doors { requests_per_minute: NonZeroU32::new(3), ..Doors::default() }, Limits::default());
    let mut client = server.client().await;
    for _ in 0..3 {
        assert_eq!(client.post(call(json!(1), "echo", json!({}))).await.status, 200);
    }
    let answer = client.post(call(json!(1), "echo", json!({}))).await;
    assert_eq!(answer.status, 429);
    assert!(answer.header("retry-after").unwrap().parse::<u64>().unwrap() >= 1);
}

#[tokio::test]
async fn doubled_headers_are_a_mismatch() {
    let server = Server::start();
    let mut client = server.client().await;
    let (headers, body) = call(json!(1), "echo", json!({}));
    let mut headers: Vec<(&str, &str)> = headers.iter().map(|(n, v)| (*n, v.as_str())).collect();
    headers.push(("Mcp-Name", "hold"));
    client.write(&request("POST", "/mcp", &headers, Some(&body))).await.unwrap();
    let answer = client.answer().await;
    assert_eq!((answer.status, answer.json()["error"]["code"].as_i64()), (400, Some(-32020)));
}
