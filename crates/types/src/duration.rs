//! Durations as people write them: `1500ms`, `10s`, `10m`, `24h`, `30d`; a bare number is ms.

/// Why a duration was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DurationError {
    /// Not a number with a known unit.
    #[error(
        "{0:?} is not a duration: write a whole number and ms, s, m, h or d (a bare number is ms)"
    )]
    Malformed(String),
    /// More milliseconds than can be kept.
    #[error("{0:?} is too long: at most 36500d")]
    TooLong(String),
}

/// A hundred years; sums with a wall time in ms stay far from overflow.
const MAX_MS: u64 = 36_500 * 86_400_000;

/// Milliseconds of a duration text.
pub fn parse_ms(text: &str) -> Result<u64, DurationError> {
    let malformed = || DurationError::Malformed(text.to_owned());
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    if number.is_empty() {
        return Err(malformed());
    }
    let factor = match unit {
        "" | "ms" => 1,
        "s" => 1000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return Err(malformed()),
    };
    let too_long = || DurationError::TooLong(text.to_owned());
    let number: u64 = number.parse().map_err(|_| too_long())?;
    number.checked_mul(factor).filter(|ms| *ms <= MAX_MS).ok_or_else(too_long)
}

/// The shortest exact text of a number of milliseconds.
pub fn format_ms(ms: u64) -> String {
    for (factor, unit) in [(86_400_000, "d"), (3_600_000, "h"), (60_000, "m"), (1000, "s")] {
        if ms != 0 && ms.is_multiple_of(factor) {
            return format!("{}{unit}", ms / factor);
        }
    }
    format!("{ms}ms")
}
