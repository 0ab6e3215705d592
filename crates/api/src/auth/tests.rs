use super::open::{check as let_in, is_loopback, is_web_page};
use super::*;
use hyper::{Uri, header};

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
fn what_a_browser_says_of_itself() {
    let ask = |site: Option<&'static str>| {
        let mut headers = hyper::HeaderMap::new();
        headers.insert(header::HOST, "localhost".parse().expect("a value"));
        if let Some(site) = site {
            headers.insert("sec-fetch-site", site.parse().expect("a value"));
        }
        let_in(&headers, &Uri::from_static("/v1/sandboxes")).is_ok()
    };
    assert!(ask(None) && ask(Some("none")) && ask(Some("same-origin")));
    assert!(!ask(Some("cross-site")) && !ask(Some("same-site")));
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
    assert!(let_in(&headers, &uri).is_err());
    headers.append(header::HOST, "localhost".parse().unwrap());
    assert_eq!(let_in(&headers, &uri), Ok(()));
    let absolute: Uri = "http://evil.example/healthz".parse().unwrap();
    assert!(let_in(&headers, &absolute).is_err());
    headers.append(header::HOST, "localhost".parse().unwrap());
    assert!(let_in(&headers, &uri).is_err());
}

#[test]
fn one_bearer_and_nothing_else() {
    let sent = |values: &[&[u8]]| {
        let mut headers = HeaderMap::new();
        for value in values {
            let value = hyper::header::HeaderValue::from_bytes(value).unwrap();
            headers.append(header::AUTHORIZATION, value);
        }
        bearer::token(&headers).map(str::to_owned)
    };
    for good in ["Bearer abc", "bearer abc", "BEARER  abc", " Bearer abc "] {
        assert_eq!(sent(&[good.as_bytes()]).as_deref(), Ok("abc"), "{good}");
    }
    let bad: [&[u8]; 10] = [
        b"",
        b"Bearer",
        b"Bearer ",
        b"abc",
        b"Basic YTpi",
        b"Bearer a b",
        b"Bearer a,b",
        b"Bearer \"a\"",
        b"Bearer\tabc",
        b"Bearer \xc3\xa4",
    ];
    for bad in bad {
        let error = sent(&[bad]).unwrap_err();
        assert_eq!(error.code, ErrorCode::Unauthenticated, "{bad:?}");
    }
    assert!(sent(&[]).is_err());
    assert!(sent(&[b"Bearer abc", b"Bearer abc"]).is_err());
}

#[test]
fn an_owner_acts_for_itself_alone() {
    let owner = |name: &str| name.parse::<Owner>().unwrap();
    let ada = Identity::Owner(owner("ada"));
    let acts = |identity: &Identity, path: Option<&str>, header: Option<&str>, query: &str| {
        let mut headers = HeaderMap::new();
        if let Some(header) = header {
            headers.insert(OWNER, header.parse().unwrap());
        }
        let query = Query::parse(Some(query), |name| name == "owner").unwrap();
        acting_for(identity, path.map(owner), &headers, &query)
    };
    for (path, header, query) in [
        (None, None, ""),
        (Some("ada"), None, ""),
        (None, Some("ada"), ""),
        (None, None, "owner=ada"),
        (Some("ada"), Some("ada"), ""),
    ] {
        assert_eq!(acts(&ada, path, header, query), Ok(Some(owner("ada"))));
    }
    for (path, header, query) in [
        (Some("bob"), None, ""),
        (Some("Ada"), None, ""),
        (None, Some("bob"), ""),
        (None, Some("ADA"), ""),
        (None, None, "owner=bob"),
        (Some("ada"), Some("bob"), ""),
        (Some("bob"), Some("ada"), ""),
    ] {
        assert_eq!(acts(&ada, path, header, query), Ok(None), "{path:?} {header:?} {query}");
    }
    for identity in [Identity::Admin, Identity::Open] {
        assert_eq!(acts(&identity, None, None, ""), Ok(Some(Owner::local())));
        assert_eq!(acts(&identity, Some("bob"), None, ""), Ok(Some(owner("bob"))));
        assert_eq!(acts(&identity, None, Some("bob"), ""), Ok(Some(owner("bob"))));
    }
    assert!(acts(&ada, None, Some("a/b"), "").is_err());
    assert!(acts(&ada, None, Some("bob"), "owner=ada").is_err());
}
