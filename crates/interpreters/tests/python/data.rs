use super::data_context;
use crate::kit::all;

#[tokio::test]
async fn arrays_and_frames_stay() {
    let mut c = data_context();
    let cases = [
        (
            "import numpy as np, pandas as pd\na = np.arange(250_000.0).reshape(500, 500); a.sum()",
            "np.float64(31249875000.0)",
        ),
        ("df = pd.DataFrame({'n': [1, 2, 3], 's': ['a', 'b', None]}); int(df.n.sum())", "6"),
    ];
    all(&mut c, &cases).await;
    assert_eq!(c.again("a[499, 499], df.shape").await.text(), "(np.float64(249999.0), (3, 2))");
    // Every bit that changes is kept, also where a page's doubles all change their sign.
    c.run("a = -a").await;
    assert_eq!(
        c.again("a.sum(), int((a <= 0).sum())").await.text(),
        "(np.float64(-31249875000.0), 250000)"
    );
    let ran = c.run("df").await;
    let result = ran.outcome.result.as_ref().expect("a result");
    assert!(result.mime["text/html"].contains("<table"), "{result:?}");
    assert!(result.text.contains("a"), "{result:?}");
    assert_eq!(result.json, None);
    let mut other = data_context();
    let draw = "import numpy as np; np.random.random()";
    assert_ne!(other.run(draw).await.text(), data_context().run(draw).await.text());
}

#[tokio::test]
async fn figures_are_shown_and_half_drawn_ones_stay() {
    let mut c = data_context();
    let ran = c.run("import matplotlib.pyplot as plt\nfig, ax = plt.subplots(figsize=(2, 1))\nax.plot([1, 2, 3])\nplt.show()\n1").await;
    assert_eq!((ran.text(), ran.displayed.len(), ran.stderr.as_str()), ("1", 1, ""));
    assert!(ran.displayed[0].mime["image/png"].starts_with("iVBORw0KGgo"));
    // Without show(), at the end.
    let ran = c.run("plt.plot([1, 2]); plt.title('half');").await;
    assert_eq!(ran.displayed.len(), 1, "{ran:?}");
    let ran = c.again("ax.set_title('whole é'); ax.plot([3, 2, 1]); fig").await;
    let result = ran.outcome.result.as_ref().expect("a result");
    assert!(result.mime["image/png"].starts_with("iVBORw0KGgo"));
    assert!(ran.displayed.is_empty(), "{ran:?}");
    let ran = c
        .again("plt.figure(figsize=(2, 1)); plt.bar(['a', 'b'], [1, 2])\nplt.savefig('f.png'); 2")
        .await;
    assert_eq!((ran.text(), ran.displayed.len()), ("2", 1));
    assert!(std::fs::read(c.workspace().join("f.png")).unwrap().starts_with(b"\x89PNG"));
    // The font has none of these, of which the one who draws is warned.
    let ran = c.run("ax.set_title('日本'); fig").await;
    assert!(ran.stderr.contains("Glyph"), "{ran:?}");
    assert!(ran.outcome.result.expect("a result").mime.contains_key("image/png"));
    let ran = c.run("plt.plot([1])\n1/0").await;
    assert_eq!((ran.error().name.as_str(), ran.displayed.len()), ("ZeroDivisionError", 1));
}

#[tokio::test]
async fn the_plain_engine_draws_too() {
    let mut c = super::context();
    let ran = c.run("import matplotlib.pyplot as plt\nplt.figure(figsize=(1, 1)); plt.plot([1, 2]); plt.show()").await;
    assert_eq!((ran.displayed.len(), ran.outcome.error), (1, None), "{}", ran.stderr);
}
