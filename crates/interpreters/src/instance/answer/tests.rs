use super::*;
use serde_json::json;

fn read(result: &str) -> Answer {
    let text = format!(r#"{{"cwd":"/workspace","result":{result},"error":null}}"#);
    Answer::read(text.as_bytes()).expect("it is an answer")
}

#[test]
fn numbers_come_exactly() {
    let answer = read(r#"{"text":"x","json":[0.1,1e308,5e-324,-0.0,9007199254740991,2.5]}"#);
    let result = answer.result.expect("a result");
    let want = json!([0.1, 1e308, 5e-324, -0.0, 9_007_199_254_740_991_u64, 2.5]);
    assert_eq!(result.json, Some(want));
    assert!(!answer.cut);
}

#[test]
fn a_value_that_is_nested_too_deeply_has_its_text() {
    let deep = format!("{}1{}", "[".repeat(100_000), "]".repeat(100_000));
    let answer = read(&format!(r#"{{"text":"deep","json":{deep},"text/html":"<p>"}}"#));
    let result = answer.result.expect("a result");
    assert_eq!((result.text.as_str(), result.json), ("deep", None));
    assert!(!answer.cut, "the text is whole");
}

#[test]
fn a_value_that_is_too_long_has_the_head_of_its_text() {
    let long = "€".repeat(ANSWER_MAX / 3 + 1);
    let answer = read(&format!(r#"{{"text":"{long}","json":1}}"#));
    let result = answer.result.expect("a result");
    assert!(answer.cut && result.json.is_none());
    let rest = (long.len() - TEXT_MAX / 3 * 3) / 3;
    assert!(result.text.ends_with(&format!("€… {rest} more characters")));
    assert!(result.text.starts_with(&long[..TEXT_MAX / 3 * 3]));
}

#[test]
fn a_text_or_json_beyond_the_bound_is_told_as_cut() {
    let long = "x".repeat(TEXT_MAX);
    let answer = read(&format!(r#"{{"text":"{long}","json":[1]}}"#));
    assert!(!answer.cut && answer.result.is_some_and(|r| r.text == long && r.json.is_some()));
    let answer = read(&format!(r#"{{"text":"{long}éy","json":"{}"}}"#, &long[2..]));
    let result = answer.result.expect("a result");
    assert!(answer.cut && result.json.is_some());
    assert_eq!(result.text, format!("{long}… 2 more characters"));
    let answer = read(&format!(r#"{{"text":"short","json":"{}"}}"#, &long[1..]));
    assert!(answer.cut && answer.result.is_some_and(|r| r.text == "short" && r.json.is_none()));
    for (more, end) in [("7", "x… 7 more characters"), ("?", "x… more characters"), ("", "x")] {
        let answer = read(&format!(r#"{{"text":"x","cut":"{more}"}}"#));
        let result = answer.result.expect("a result");
        assert!(answer.cut && result.mime.is_empty());
        assert_eq!(result.text, end);
        let error =
            format!(r#"{{"name":"E","message":"x","cut":"{more}","traceback":[],"lineNumber":3}}"#);
        let text = format!(r#"{{"cwd":"/","result":null,"error":{error}}}"#);
        let answer = Answer::read(text.as_bytes()).expect("an answer");
        let error = answer.error.expect("an error");
        assert_eq!((answer.cut, error.message.as_str(), error.line_number), (true, end, Some(3)));
    }
}

#[test]
fn what_is_no_answer_is_an_error() {
    for text in ["", "{}", "[]", r#"{"cwd":1,"result":null,"error":null}"#, "{"] {
        assert!(matches!(Answer::read(text.as_bytes()), Err(Stop::Driver(_))), "{text}");
    }
}
