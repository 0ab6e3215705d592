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
    assert_eq!(result.text.len(), TEXT_MAX / 3 * 3);
}

#[test]
fn what_is_no_answer_is_an_error() {
    for text in ["", "{}", "[]", r#"{"cwd":1,"result":null,"error":null}"#, "{"] {
        assert!(matches!(Answer::read(text.as_bytes()), Err(Stop::Driver(_))), "{text}");
    }
}
