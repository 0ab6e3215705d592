//! Exit codes.

use super::exit_code;
use types::CodeError;

#[test]
fn codes_are_those_of_the_languages() {
    for (name, message, code) in [
        ("SystemExit", "3", 3),
        ("SystemExit", "", 0),
        ("SystemExit", "None", 0),
        ("SystemExit", "-1", 255),
        ("SystemExit", "256", 0),
        ("SystemExit", "exit", 0),
        ("SystemExit", "exit 4", 4),
        ("SystemExit", "process.exit(5)", 5),
        ("SystemExit", "process.exit()", 0),
        ("SystemExit", "the interpreter exited with status 6", 6),
        ("SystemExit", "no 5", 1),
        ("SystemExit", "(1, 2)", 1),
        ("ExecutionLimitError", "the execution took longer than 300 ms", 124),
        ("ExecutionLimitError", "the execution needed more than 1 bytes of memory", 1),
        ("ValueError", "longer than", 1),
    ] {
        let error = CodeError {
            name: name.to_owned(),
            message: message.to_owned(),
            traceback: Vec::new(),
            line_number: None,
        };
        assert_eq!(exit_code(&error), code, "{name}: {message}");
    }
}
