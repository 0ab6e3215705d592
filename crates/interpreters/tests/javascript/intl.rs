use super::context;
use crate::kit::all;

/// Narrow and other spaces that do not break are written as `_`.
const NUMBERS: &[(&str, &str)] = &[
    ("(1234567.891).toLocaleString()", "'1,234,567.891'"),
    ("(1234567.891).toLocaleString('de-DE')", "'1.234.567,891'"),
    ("(1234567.891).toLocaleString('fr').replace(/\\p{Zs}/gu, '_')", "'1_234_567,891'"),
    ("(1234567.891).toLocaleString('en-IN')", "'12,34,567.891'"),
    ("(1234567.891).toLocaleString('hi')", "'12,34,567.891'"),
    ("(0.256).toLocaleString('en-US', { style: 'percent' })", "'26%'"),
    ("(12345678901234567890n).toLocaleString('en-US')", "'12,345,678,901,234,567,890'"),
    ("(1e21).toLocaleString()", "'1,000,000,000,000,000,000,000'"),
    ("[NaN, Infinity, -0].map((n) => n.toLocaleString())", "[ 'NaN', '∞', '-0' ]"),
    ("(5).toLocaleString('en', { minimumFractionDigits: 2 })", "'5.00'"),
    (
        "new Intl.NumberFormat('en-US', { style: 'currency', currency: 'USD' }).format(-1234.5)",
        "'-$1,234.50'",
    ),
    (
        "new Intl.NumberFormat('ja-JP', { style: 'currency', currency: 'JPY' }).format(5000)",
        "'￥5,000'",
    ),
    (
        "new Intl.NumberFormat('de-DE', { style: 'currency', currency: 'EUR' }).format(1234.5).replace(/\\p{Zs}/gu, '_')",
        "'1.234,50_€'",
    ),
    (
        "new Intl.NumberFormat('pt-BR', { style: 'currency', currency: 'BRL' }).format(9.9).replace(/\\p{Zs}/gu, '_')",
        "'R$_9,90'",
    ),
    ("new Intl.NumberFormat('en', { notation: 'compact' }).format(1234567)", "'1.2M'"),
    (
        "new Intl.NumberFormat('en', { notation: 'compact', compactDisplay: 'long' }).format(1234567)",
        "'1.2 million'",
    ),
    (
        "new Intl.NumberFormat('en', { style: 'unit', unit: 'kilometer-per-hour' }).format(50)",
        "'50 km/h'",
    ),
    ("new Intl.NumberFormat('en', { maximumSignificantDigits: 3 }).format(123456)", "'123,000'"),
    (
        "new Intl.NumberFormat('en', { style: 'currency', currency: 'USD' }).formatToParts(1234.5).map((p) => p.type).join()",
        "'currency,integer,group,integer,decimal,fraction'",
    ),
    ("new Intl.NumberFormat('en').resolvedOptions().locale", "'en'"),
    ("Intl.NumberFormat().resolvedOptions().locale", "'en-US'"),
    (
        "[3, 1].map(Intl.NumberFormat('de', { minimumFractionDigits: 1 }).format)",
        "[ '3,0', '1,0' ]",
    ),
];

const DATES: &[(&str, &str)] = &[
    (
        "const d = new Date(Date.UTC(2026, 10, 30, 15, 4, 5)), plain = (text) => text.replace(/\\p{Zs}/gu, ' ')",
        "",
    ),
    ("plain(d.toLocaleString())", "'11/30/2026, 3:04:05 PM'"),
    ("d.toLocaleDateString()", "'11/30/2026'"),
    ("plain(d.toLocaleTimeString())", "'3:04:05 PM'"),
    ("d.toLocaleDateString('de-DE')", "'30.11.2026'"),
    ("d.toLocaleDateString('en-GB')", "'30/11/2026'"),
    ("d.toLocaleTimeString('de')", "'15:04:05'"),
    (
        "d.toLocaleDateString('en-US', { weekday: 'long', year: 'numeric', month: 'long', day: 'numeric' })",
        "'Monday, November 30, 2026'",
    ),
    ("d.toLocaleDateString('fr-FR', { dateStyle: 'full' })", "'lundi 30 novembre 2026'"),
    ("d.toLocaleDateString('ja', { dateStyle: 'long' })", "'2026年11月30日'"),
    (
        "plain(new Intl.DateTimeFormat('en', { dateStyle: 'medium', timeStyle: 'short' }).format(d))",
        "'Nov 30, 2026, 3:04 PM'",
    ),
    (
        "plain(d.toLocaleString('en-US', { timeZone: 'America/New_York', timeZoneName: 'short' }))",
        "'11/30/2026, 10:04:05 AM EST'",
    ),
    (
        "plain(d.toLocaleString('en-US', { timeZone: 'asia/tokyo', hour12: false }))",
        "'12/1/2026, 00:04:05'",
    ),
    ("Intl.DateTimeFormat().resolvedOptions().timeZone", "'UTC'"),
    (
        "new Intl.DateTimeFormat('en', { timeZone: 'Europe/Berlin' }).resolvedOptions().timeZone",
        "'Europe/Berlin'",
    ),
    (
        "new Intl.DateTimeFormat('en').formatToParts(d).map((p) => p.value).join('|')",
        "'11|/|30|/|2026'",
    ),
    ("new Date(NaN).toLocaleString()", "'Invalid Date'"),
    (
        "[1234.5, d, null, 10n].toLocaleString('de', { maximumFractionDigits: 0 })",
        "'1.235,30.11.2026, 15:04:05,,10'",
    ),
    ("new Float64Array([1234.5, 2]).toLocaleString('de')", "'1.234,5,2'"),
];

const WORDS: &[(&str, &str)] = &[
    ("new Intl.PluralRules('en', { type: 'ordinal' }).select(22)", "'two'"),
    ("[1, 3, 5].map((n) => new Intl.PluralRules('ru').select(n)).join()", "'one,few,many'"),
    ("new Intl.RelativeTimeFormat('en', { numeric: 'auto' }).format(-1, 'day')", "'yesterday'"),
    ("new Intl.RelativeTimeFormat('es').format(3, 'weeks')", "'dentro de 3 semanas'"),
    ("new Intl.ListFormat('en', { type: 'conjunction' }).format(['a', 'b', 'c'])", "'a, b, and c'"),
    (
        "new Intl.ListFormat('de', { type: 'disjunction' }).format(new Set(['x', 'y']))",
        "'x oder y'",
    ),
    ("new Intl.DisplayNames('en', { type: 'region' }).of('DE')", "'Germany'"),
    ("new Intl.DisplayNames(['fr'], { type: 'currency' }).of('USD')", "'dollar des États-Unis'"),
    ("new Intl.Locale('zh-TW').maximize().toString()", "'zh-Hant-TW'"),
    ("new Intl.Locale('en-US', { hourCycle: 'h23' }) + ''", "'en-US-u-hc-h23'"),
    ("Intl.getCanonicalLocales(['EN-us', 'de'])", "[ 'en-US', 'de' ]"),
    ("new Intl.NumberFormat(new Intl.Locale('de')).format(1.5)", "'1,5'"),
    ("Intl.NumberFormat.supportedLocalesOf(['de-AT', 'tlh', 'zh-TW'])", "[ 'de-AT', 'zh-TW' ]"),
    ("Intl.supportedValuesOf('timeZone').includes('Europe/Berlin')", "true"),
    // What is not known falls back to the next that is, in the end to the default.
    ("new Intl.NumberFormat('tlh').resolvedOptions().locale", "'en-US'"),
    ("new Intl.NumberFormat(['tlh', 'de-LU']).resolvedOptions().locale", "'de'"),
];

#[tokio::test]
async fn numbers_dates_and_words_are_as_the_locale_has_them() {
    let mut c = context();
    all(&mut c, NUMBERS).await;
    assert_eq!(c.run(DATES[0].0).await.outcome.error, None);
    all(&mut c, &DATES[1..]).await;
    all(&mut c, WORDS).await;
}

#[tokio::test]
async fn what_is_wrong_is_an_error_of_the_code_s_own_realm() {
    let mut c = context();
    for (code, name) in [
        ("new Intl.NumberFormat('x_y')", "RangeError"),
        ("(1).toLocaleString('not a tag')", "RangeError"),
        ("new Intl.NumberFormat('en', { style: 'currency' })", "TypeError"),
        ("new Intl.NumberFormat('en', { style: 'odd' })", "RangeError"),
        ("new Intl.DateTimeFormat('en', { timeZone: 'Mars/Base' })", "RangeError"),
        ("new Intl.DateTimeFormat('en').format(NaN)", "RangeError"),
        ("Intl.PluralRules()", "TypeError"),
        ("new Intl.ListFormat('en').format([1])", "TypeError"),
        ("new Intl.DisplayNames('en')", "TypeError"),
        ("Intl.NumberFormat.prototype.resolvedOptions.call({})", "TypeError"),
        ("new Intl.NumberFormat(null)", "TypeError"),
        ("new Intl.NumberFormat([5])", "TypeError"),
        ("new Intl.NumberFormat('en', { localeMatcher: 'x' })", "RangeError"),
        ("Intl.supportedValuesOf('x')", "RangeError"),
    ] {
        let caught = format!("try {{ {code}; 0 }} catch (e) {{ [e.name, e instanceof {name}] }}");
        assert_eq!(c.run(&caught).await.text(), format!("[ '{name}', true ]"), "{code}");
    }
    let own = "try { new Intl.NumberFormat('en', { get style() { throw 7 } }) } catch (e) { e }";
    assert_eq!(c.run(own).await.text(), "7");
}

#[tokio::test]
async fn it_looks_as_the_standard_has_it() {
    let mut c = context();
    let cases = [
        ("Object.keys(globalThis).includes('Intl')", "false"),
        (
            "for (const key in globalThis) if (key === 'Intl') throw key; 'Intl' in globalThis",
            "true",
        ),
        (
            "const p = Object.getOwnPropertyDescriptor(globalThis, 'Intl'); [p.writable, p.enumerable, p.configurable]",
            "[ true, false, true ]",
        ),
        ("String(Intl) + new Intl.PluralRules()", "'[object Intl][object Intl.PluralRules]'"),
        (
            "[Intl.NumberFormat.name, Intl.NumberFormat.length, Intl.DisplayNames.length]",
            "[ 'NumberFormat', 0, 2 ]",
        ),
        ("[Number, Date, Array].map((k) => k.prototype.toLocaleString.length)", "[ 0, 0, 0 ]"),
        ("Date.prototype.toLocaleDateString.name", "'toLocaleDateString'"),
        ("Object.getOwnPropertyNames(new Intl.NumberFormat()).length", "0"),
        ("const n = new Intl.NumberFormat(); n.format === n.format && n.format.length", "1"),
        ("Intl.NumberFormat.prototype.constructor === Intl.NumberFormat", "true"),
        (
            "const parts = n.formatToParts(1); Array.isArray(parts) && parts instanceof Array && parts[0] instanceof Object",
            "true",
        ),
        (
            "class Mine extends Intl.NumberFormat { twice(x) { return this.format(2 * x) } }; new Mine('de').twice(600.5)",
            "'1.201'",
        ),
        ("[typeof Intl.Collator, typeof Intl.Segmenter]", "[ 'undefined', 'undefined' ]"),
        ("Intl = 5; Intl", "5"),
        ("delete globalThis.Intl; typeof Intl", "'undefined'"),
        ("(1234.5).toLocaleString()", "'1,234.5'"),
    ];
    all(&mut c, &cases).await;
}

#[tokio::test]
async fn it_stays() {
    let mut c = context();
    c.run("const euro = new Intl.NumberFormat('de', { style: 'currency', currency: 'EUR' })").await;
    c.run("const day = new Intl.DateTimeFormat('fr', { dateStyle: 'long', timeZone: 'Asia/Tokyo' }); const { format } = day").await;
    for _ in 0..2 {
        c.evict();
        let cases = [
            ("euro.format(1.5).replace(/\\p{Zs}/gu, '_')", "'1,50_€'"),
            ("day.format(0) + format(0)", "'1 janvier 19701 janvier 1970'"),
            ("(1.5).toLocaleString('sv')", "'1,5'"),
        ];
        all(&mut c, &cases).await;
    }
}

/// Code may spoil all that it reaches before the first use; what is told stays right.
#[tokio::test]
async fn nothing_that_code_changes_is_what_it_stands_on() {
    for code in [
        "Object.prototype.x = 1; Object.prototype.style = 'percent'; Array.prototype[0] = 'zz'",
        "Array.prototype.map = Array.prototype.push = Array.prototype.join = () => { throw 1 }",
        "Array.prototype[Symbol.iterator] = function* () {}; String.prototype.split = String.prototype.slice = () => 'x'",
        "delete globalThis.Intl; globalThis.Object = globalThis.Reflect = globalThis.Map = globalThis.WeakMap = globalThis.Number = undefined",
        "Object.defineProperty(Object.prototype, 'get', { value: 5, writable: true }); Object.defineProperty = Reflect.construct = () => { throw 1 }",
        "for (const key of ['library', 'intrinsics', 'objectPrototype', 'value', 'Intl', 'enumerable']) \
           Object.defineProperty(Object.prototype, key, \
             { __proto__: null, set() { throw key }, get() { throw key }, configurable: true })",
        "RegExp.prototype.exec = Function.prototype.call = Function.prototype.bind = () => { throw 1 }; JSON = undefined",
    ] {
        let mut c = context();
        assert_eq!(
            c.run(&format!("const I = () => (1234.5).toLocaleString('de'); {code}; 0"))
                .await
                .text(),
            "0",
            "{code}"
        );
        for _ in 0..2 {
            assert_eq!(c.run("I()").await.text(), "'1.234,5'", "{code}");
            assert_eq!(
                c.run("new Date(0).toLocaleDateString('en-GB')").await.text(),
                "'01/01/1970'",
                "{code}"
            );
            c.evict();
        }
        assert_eq!(c.run("throw new TypeError('x')").await.error().message, "x", "{code}");
    }
}

/// Who does not use it has what he had; who does has most of his memory still.
#[tokio::test]
async fn it_costs_memory_where_it_is_used() {
    let mut c = context();
    c.run("(1).toLocaleString()").await.text();
    assert!(c.stored() < 4 << 20, "{}", c.stored());
    assert_eq!(c.run("new Uint8Array(48 << 20).length").await.text(), (48 << 20).to_string());
    let mut c = context();
    c.run("let held = new Uint8Array(60 << 20)").await;
    // There is no room for it now; later there is.
    let ran = c.run("(1234).toLocaleString()").await;
    assert!(ran.outcome.error.is_some(), "{ran:?}");
    assert_eq!(c.run("held = null; (1234).toLocaleString()").await.text(), "'1,234'");
    let mut c = context();
    c.run("1").await.text();
    assert!(c.stored() < 16 << 10, "{}", c.stored());
}
