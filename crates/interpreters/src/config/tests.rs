use super::engine_config;
use wasmtime::{Engine, Module};

/// `(module (tag) (memory 1) (func (export "f")))` with an exception tag, as Python needs it.
const MODULE: &[u8] = &[
    0, b'a', b's', b'm', 1, 0, 0, 0, // magic and version
    1, 4, 1, 0x60, 0, 0, // one type: no parameters, no results
    3, 2, 1, 0, // one function of that type
    5, 3, 1, 0, 1, // one memory of one page
    13, 3, 1, 0, 0, // one tag
    7, 5, 1, 1, b'f', 0, 0, // exported as f
    10, 4, 1, 2, 0, 11, // which does nothing
];

#[test]
fn what_one_engine_compiled_another_loads() {
    let one = Engine::new(&engine_config()).expect("an engine");
    let compiled = one.precompile_module(MODULE).expect("compile");
    let other = Engine::new(&engine_config()).expect("an engine");
    assert_eq!(
        Engine::detect_precompiled(&compiled),
        Some(wasmtime::Precompiled::Module),
        "it says what it is"
    );
    assert!(other.precompile_compatibility_hash_matches(&one));
    Module::new(&other, MODULE).expect("exceptions are on");
}

trait Same {
    fn precompile_compatibility_hash_matches(&self, other: &Engine) -> bool;
}

impl Same for Engine {
    fn precompile_compatibility_hash_matches(&self, other: &Engine) -> bool {
        use std::hash::{DefaultHasher, Hash, Hasher};
        let hash = |engine: &Engine| {
            let mut hasher = DefaultHasher::new();
            engine.precompile_compatibility_hash().hash(&mut hasher);
            hasher.finish()
        };
        hash(self) == hash(other)
    }
}
