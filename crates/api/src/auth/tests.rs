use super::*;

#[test]
fn loopback_hosts() {
    for host in [
        "localhost",
        "LOCALHOST:80",
        "127.0.0.1",
        "127.0.0.1:7700",
        "127.255.0.9",
        "[::1]",
        "[::1]:1",
        "localhost:65535",
        "[0:0:0:0:0:0:0:1]:9",
    ] {
        assert!(is_loopback(host), "{host}");
    }
    for host in [
        "",
        ":80",
        "example.org",
        "127.0.0.1.example.org",
        "localhost.example.org",
        "localhost.",
        "128.0.0.1",
        "0.0.0.0",
        "10.0.0.1:7700",
        "[::]",
        "[::1",
        "::1",
        "[::1]x",
        "[::1]:x",
        "127.1",
        "0x7f.0.0.1",
        "2130706433",
        "127.0.0.1:65536",
        "localhost:+1",
        "localhost:80:80",
        "user@127.0.0.1",
        "127.0.0.1 ",
        "[::ffff:127.0.0.1]",
    ] {
        assert!(!is_loopback(host), "{host}");
    }
}

#[test]
fn web_pages() {
    for origin in ["http://localhost:3000", "https://a.example", "HTTP://A", "null", "NULL", ""] {
        assert!(is_web_page(origin.as_bytes()), "{origin}");
    }
    assert!(is_web_page(b"\xff"));
    for origin in ["app://console", "vscode-webview://x", "tauri://localhost"] {
        assert!(!is_web_page(origin.as_bytes()), "{origin}");
    }
}

#[test]
fn all_hosts_of_a_request_count() {
    let uri: Uri = "/healthz".parse().unwrap();
    let mut headers = HeaderMap::new();
    assert!(authenticate(Listening::Open, &headers, &uri).is_err());
    assert_eq!(authenticate(Listening::Admin, &headers, &uri), Ok(Identity::Admin));
    headers.append(header::HOST, "localhost".parse().unwrap());
    assert_eq!(authenticate(Listening::Open, &headers, &uri), Ok(Identity::Open));
    let absolute: Uri = "http://evil.example/healthz".parse().unwrap();
    assert!(authenticate(Listening::Open, &headers, &absolute).is_err());
    headers.append(header::HOST, "localhost".parse().unwrap());
    assert!(authenticate(Listening::Open, &headers, &uri).is_err());
}
