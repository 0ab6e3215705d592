//! What the tests of code share.

use e2e::{Answer, Builder, Server, eventually};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::time::Duration;

/// The limit of waits for what comes by itself.
pub const SOON: Duration = Duration::from_secs(60);

/// How a language says what the tests ask of each.
pub struct Lang {
    pub binding: &'static str,
    pub language: &'static str,
    /// Sets the variable `x` to 41.
    pub set: &'static str,
    /// The variable plus one, as a value.
    pub get: &'static str,
    /// Adds one to the variable.
    pub add: &'static str,
    /// Defines a function `twice` and a class or package that later code uses.
    pub define: &'static str,
    /// Uses both: 42.
    pub use_it: &'static str,
    /// Fails with an error of the language.
    pub fail: &'static str,
    /// Its name.
    pub error: &'static str,
    /// Never ends.
    pub spin: &'static str,
    /// Prints the variable `V` of the environment, or `none`.
    pub env: &'static str,
    /// Writes `out` and `err` to the two streams.
    pub print: &'static str,
    /// Writes the text `from code` to /workspace/note.txt.
    pub write: &'static str,
    /// Reads /workspace/note.txt as a value.
    pub read: &'static str,
}

pub const JAVASCRIPT: Lang = Lang {
    binding: "JAVASCRIPT",
    language: "javascript",
    set: "let x = 41",
    get: "x + 1",
    add: "x += 1",
    define: "function twice(n) { return 2 * n }\nclass P { constructor(v) { this.v = v } get() { return this.v } }\nconst p = new P(21)",
    use_it: "twice(p.get())",
    fail: "null.x",
    error: "TypeError",
    spin: "for (;;) {}",
    env: "process.env.V ?? 'none'",
    print: "console.log('out'); console.error('err')",
    write: "require('fs').writeFileSync('/workspace/note.txt', 'from code')",
    read: "require('fs').readFileSync('/workspace/note.txt', 'utf8')",
};

pub const PYTHON: Lang = Lang {
    binding: "PYTHON",
    language: "python",
    set: "x = 41",
    get: "x + 1",
    add: "x += 1",
    define: "def twice(n):\n    return 2 * n\nclass P:\n    def __init__(self, v):\n        self.v = v\n    def get(self):\n        return self.v\np = P(21)",
    use_it: "twice(p.get())",
    fail: "1 / 0",
    error: "ZeroDivisionError",
    spin: "while True: pass",
    env: "import os; os.environ.get('V', 'none')",
    print: "import sys; print('out'); print('err', file=sys.stderr)",
    write: "with open('/workspace/note.txt', 'w') as f: _ = f.write('from code')",
    read: "open('/workspace/note.txt').read()",
};

pub const RUBY: Lang = Lang {
    binding: "RUBY",
    language: "ruby",
    set: "x = 41",
    get: "x + 1",
    add: "x += 1",
    define: "def twice(n) = 2 * n\nclass P\n  def initialize(v) = @v = v\n  def get = @v\nend\np = P.new(21)",
    use_it: "twice(p.get)",
    fail: "1 / 0",
    error: "ZeroDivisionError",
    spin: "loop {}",
    env: "ENV.fetch('V', 'none')",
    print: "puts 'out'; $stderr.puts 'err'",
    write: "File.write('/workspace/note.txt', 'from code')",
    read: "File.read('/workspace/note.txt')",
};

pub const PERL: Lang = Lang {
    binding: "PERL",
    language: "perl",
    set: "our $x = 41;",
    get: "$x + 1",
    add: "$x += 1;",
    define: "sub twice { return 2 * $_[0] }\npackage P { sub new { my ($c, $v) = @_; return bless { v => $v }, $c } sub get { return $_[0]{v} } }\nour $p = P->new(21);",
    use_it: "twice($p->get())",
    fail: "die \"no\\n\"",
    error: "PerlError",
    spin: "while (1) {}",
    env: "$ENV{V} // 'none'",
    print: "print \"out\\n\"; print STDERR \"err\\n\";",
    write: "open(my $f, '>', '/workspace/note.txt') or die $!; print $f 'from code'; close $f;",
    read: "do { open(my $f, '<', '/workspace/note.txt') or die $!; local $/; <$f> }",
};

/// Every language; `SANDKEEP_TEST_LANGUAGES` (`javascript,python`) takes some of them.
pub fn languages() -> Vec<&'static Lang> {
    let chosen = std::env::var("SANDKEEP_TEST_LANGUAGES").unwrap_or_default();
    let all = [&JAVASCRIPT, &PYTHON, &RUBY, &PERL];
    let wanted = |lang: &&Lang| {
        chosen.is_empty() || chosen.split(',').any(|name| name.trim() == lang.language)
    };
    all.into_iter().filter(wanted).collect()
}

/// Where the engines are.
pub fn cache() -> PathBuf {
    if let Some(dir) = std::env::var_os("SANDKEEP_ENGINE_CACHE").filter(|dir| !dir.is_empty()) {
        return dir.into();
    }
    let mut path = e2e::binary();
    path.pop();
    path.pop();
    path.join("engines")
}

/// A server's settings, with the engines.
pub fn builder() -> Builder {
    let cache = cache();
    Builder::default().args(&["--engine-cache", cache.to_str().expect("a path in UTF-8")])
}

/// A server that runs code.
pub async fn server() -> Server {
    started(builder()).await
}

/// The same with other settings. Fails where an engine is missing.
pub async fn started(builder: Builder) -> Server {
    let server = builder.start().await;
    let bindings = server.get("/v1/bindings").await.expect(200);
    let bindings = bindings["bindings"].as_array().expect("a list").clone();
    for lang in languages() {
        let there = bindings.iter().any(|b| b["binding"] == lang.binding && b["installed"] == true);
        assert!(
            there,
            "{} is not installed: sandkeep engines install {} --engine-cache {}",
            lang.binding,
            lang.language,
            cache().display()
        );
    }
    server
}

/// Makes a context; its id.
pub async fn context(server: &Server, id: &str, binding: &str) -> String {
    let body = json!({ "binding": binding });
    let made = server.post(&format!("/v1/sandboxes/{id}/contexts"), body).await.expect(201);
    made["id"].as_str().expect("an id").to_owned()
}

/// Runs code in a context; whatever the answer.
pub async fn ask(server: &Server, id: &str, context: &str, body: Value) -> Answer {
    server.post(&format!("/v1/sandboxes/{id}/contexts/{context}/execute"), body).await
}

/// Runs code in a context; must answer 200.
pub async fn run(server: &Server, id: &str, context: &str, code: &str) -> Value {
    ask(server, id, context, json!({ "code": code })).await.expect(200)
}

/// Runs code in the default context of a binding; must answer 200 and have no error.
pub async fn execute(server: &Server, id: &str, binding: &str, code: &str) -> Value {
    let body = json!({ "code": code, "binding": binding });
    let answer = server.post(&format!("/v1/sandboxes/{id}/execute"), body).await.expect(200);
    assert!(answer.get("error").is_none(), "{answer}");
    answer
}

/// The text of the only result.
#[track_caller]
pub fn text(answer: &Value) -> &str {
    assert!(answer.get("error").is_none(), "{answer}");
    let results = answer["results"].as_array().expect("a list");
    assert_eq!(results.len(), 1, "{answer}");
    results[0]["text"].as_str().expect("a text")
}

/// What is told of a context.
pub async fn told(server: &Server, id: &str, context: &str) -> Value {
    server.get(&format!("/v1/sandboxes/{id}/contexts/{context}")).await.expect(200)
}

/// Code that makes a file in the workspace: a mark of how far it came.
pub fn marks(language: &str, mark: &str) -> String {
    match language {
        "javascript" => format!("require('fs').writeFileSync('/workspace/{mark}', 'x');"),
        "python" => format!("open('/workspace/{mark}', 'x').close()"),
        "ruby" => format!("File.write('/workspace/{mark}', 'x')"),
        _ => format!("open(my $mark, '>', '/workspace/{mark}') or die $!; close $mark;"),
    }
}

/// The place of a file of a sandbox's workspace.
pub fn place(server: &Server, id: &str, name: &str) -> PathBuf {
    let object = Server::object("local", id);
    server.data.join("sandboxes").join(object).join("workspace").join(name)
}

/// Starts an execution that does not end, and waits until it runs.
pub async fn spinning(
    server: &Server,
    id: &str,
    context: &str,
    lang: &Lang,
    mark: &str,
) -> tokio::task::JoinHandle<(u16, Value)> {
    let url = format!("{}/v1/sandboxes/{id}/contexts/{context}/execute", server.url);
    let code = format!("{}\n{}", marks(lang.language, mark), lang.spin);
    let send = server.http.post(url).json(&json!({ "code": code, "timeoutMs": 600_000 })).send();
    let task = tokio::spawn(async move {
        let answer = send.await.expect("an answer");
        (answer.status().as_u16(), answer.json().await.expect("JSON"))
    });
    let file = place(server, id, mark);
    eventually("the code runs", SOON, || async { file.exists().then_some(()) }).await;
    task
}
