//! Arrays and figures in Python for data.

use crate::damage::workers;
use crate::rig::*;
use base64::Engine as _;
use e2e::{Server, eventually};
use serde_json::{Value, json};

const BINDING: &str = "PYTHON_DATA";

/// What its figure looks like: the bytes of the only result's PNG.
fn png(answer: &Value) -> Vec<u8> {
    text(answer);
    let encoded = answer["results"][0]["image/png"].as_str();
    let encoded = encoded.unwrap_or_else(|| panic!("{answer}"));
    let bytes = base64::engine::general_purpose::STANDARD.decode(encoded).expect("base64");
    assert!(bytes.starts_with(b"\x89PNG\r\n\x1a\n") && bytes.ends_with(b"IEND\xaeB`\x82"));
    bytes
}

async fn begin(server: &Server, id: &str) {
    for code in [
        "import numpy as np, pandas as pd, matplotlib.pyplot as plt",
        "a = np.arange(250_000.0).reshape(500, 500); view = a[::2, 1::2]; rng = np.random.default_rng(7)",
        "df = pd.DataFrame({'n': [1, 2, 3], 's': ['a', 'b', None]}).set_index('n')",
        "other = np.random.default_rng(7); drawn = rng.random(3); other.random(3); np.random.seed(7); legacy = np.random.RandomState(7)",
        "fig, ax = plt.subplots(figsize=(3, 2)); plt.close(fig); ax.plot([0, 1, 2], label='before');",
    ] {
        let answer = run(server, "s", id, code).await;
        assert!(answer.get("error").is_none(), "{code}: {answer}");
    }
}

/// Goes on with all of it; `lines` are drawn already. The figure as it was and as it is now.
async fn go_on(server: &Server, id: &str, lines: usize) -> (Vec<u8>, Vec<u8>) {
    let n = lines - 1;
    let cases = [
        ("float(a.sum())", format!("{:?}", 31_249_875_000.0 + n as f64)),
        ("a[0, 1] += 1; float(view[0, 0])", format!("{:?}", 2.0 + n as f64)),
        ("view.base is a.base or view.base is a", "True".to_owned()),
        ("df.loc[2, 's'], df.shape", "('b', (3, 1))".to_owned()),
        ("bool((rng.random(5) == other.random(5)).all())", "True".to_owned()),
        ("np.random.random() == legacy.random_sample()", "True".to_owned()),
        ("len(fig.axes[0].lines), len(ax.lines[0].get_xdata())", format!("({lines}, 3)")),
    ];
    for (code, told) in cases {
        let answer = run(server, "s", id, code).await;
        assert_eq!(text(&answer), told, "{code} with {lines} lines");
    }
    let before = png(&run(server, "s", id, "fig").await);
    let code = format!("ax.plot([{n}, 0, {n}], color='k'); ax.set_title('{n}'); fig");
    (before, png(&run(server, "s", id, &code).await))
}

#[tokio::test(flavor = "multi_thread")]
async fn arrays_and_half_drawn_figures_go_on_after_idleness_a_restart_and_kill_9() {
    if !languages().iter().any(|lang| lang.binding == "PYTHON") {
        return;
    }
    let mut server = server().await;
    server.put("/v1/sandboxes/s", json!({ "idleLimitMs": 1000 })).await.expect(201);
    let id = context(&server, "s", BINDING).await;
    begin(&server, &id).await;
    server.kill();
    server.restart().await;
    let (first, mut last) = go_on(&server, &id, 1).await;
    assert_ne!(first, last, "another line is seen");
    for lines in 2..4 {
        if lines == 2 {
            server.terminate();
            server.restart().await;
        } else {
            let none = || async { workers(&server).is_empty().then_some(()) };
            eventually("the worker ends", SOON, none).await;
        }
        let (before, after) = go_on(&server, &id, lines).await;
        assert!(before == last, "what was drawn is drawn, to the byte");
        assert_ne!(after, before);
        last = after;
    }
}
