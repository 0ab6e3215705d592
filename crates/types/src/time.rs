//! Wall time as text.

/// ISO 8601 in UTC with milliseconds, of milliseconds since the epoch:
/// `2026-09-30T12:34:56.789Z`.
pub fn iso8601(epoch_ms: i64) -> String {
    let (days, ms) = (epoch_ms.div_euclid(86_400_000), epoch_ms.rem_euclid(86_400_000));
    let (year, month, day) = civil(days);
    let (s, ms) = (ms / 1000, ms % 1000);
    format!(
        "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}.{ms:03}Z",
        s / 3600,
        s / 60 % 60,
        s % 60
    )
}

/// Milliseconds since the epoch of a text: a whole number of them, or a time as RFC 3339
/// (`2026-09-30T12:34:56.789Z`, `2026-09-30T14:34:56+02:00`). Finer parts are cut. The plus may
/// be a space, as which it arrives where a query was not encoded.
pub fn parse_time(text: &str) -> Option<i64> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    if !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()) {
        return text.parse().ok().filter(|ms: &i64| ms.unsigned_abs() < 1 << 53);
    }
    rfc3339(text.as_bytes())
}

fn rfc3339(text: &[u8]) -> Option<i64> {
    let (head, rest) = text.split_at_checked(19)?;
    let marks = [(4, b'-'), (7, b'-'), (13, b':'), (16, b':')];
    let divided = matches!(head[10], b'T' | b't' | b' ');
    if !divided || marks.iter().any(|(at, mark)| head[*at] != *mark) {
        return None;
    }
    let (year, month, day) = (number(&head[..4])?, number(&head[5..7])?, number(&head[8..10])?);
    let (h, m, s) = (number(&head[11..13])?, number(&head[14..16])?, number(&head[17..])?);
    let days = days(year, month, day);
    // The day is one of its month where it survives the way there and back.
    if civil(days) != (year, month, day) || h > 23 || m > 59 || s > 60 {
        return None;
    }
    let (ms, zone) = match rest.split_first()? {
        (b'.', rest) => {
            let count = rest.iter().take_while(|b| b.is_ascii_digit()).count();
            let (fraction, zone) = rest.split_at(count);
            let digit = |at: usize| fraction.get(at).map_or(0, |b| i64::from(b - b'0'));
            fraction.first()?;
            (digit(0) * 100 + digit(1) * 10 + digit(2), zone)
        }
        _ => (0, rest),
    };
    let offset = match zone {
        [b'Z' | b'z'] => 0,
        [sign @ (b'+' | b'-' | b' '), h1, h2, b':', m1, m2] => {
            let (h, m) = (number(&[*h1, *h2])?, number(&[*m1, *m2])?);
            if h > 23 || m > 59 {
                return None;
            }
            if *sign == b'-' { -(h * 60 + m) } else { h * 60 + m }
        }
        _ => return None,
    };
    Some((((days * 24 + h) * 60 + m - offset) * 60 + s) * 1000 + ms)
}

/// A number of digits alone.
fn number(digits: &[u8]) -> Option<i64> {
    let digit = |n: i64, b: &u8| b.is_ascii_digit().then(|| n * 10 + i64::from(b - b'0'));
    digits.iter().try_fold(0, digit)
}

/// The number of days since 1970-01-01 of a date: [`civil`] the other way round.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = year - i64::from(month <= 2);
    let era = year.div_euclid(400);
    let yoe = year.rem_euclid(400);
    let doy = (153 * (month + if month > 2 { -3 } else { 9 }) + 2) / 5 + day - 1;
    era * 146_097 + yoe * 365 + yoe / 4 - yoe / 100 + doy - 719_468
}

/// Year, month and day of a number of days since 1970-01-01 (proleptic Gregorian calendar),
/// counted in 400-year eras that begin on the first of March.
fn civil(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let doe = days.rem_euclid(146_097);
    let yoe = (doe - doe / 1460 + doe / 36_524 - doe / 146_096) / 365;
    let doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
    let mp = (5 * doy + 2) / 153;
    let day = doy - (153 * mp + 2) / 5 + 1;
    let month = if mp < 10 { mp + 3 } else { mp - 9 };
    (yoe + era * 400 + i64::from(month <= 2), month, day)
}
