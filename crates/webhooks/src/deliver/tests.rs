//! The waits between tries.

use super::*;

#[test]
fn waits_grow_and_stay_bounded() {
    for attempts in 1..100 {
        let longest = BACK_OFF.0.saturating_mul(1 << (attempts - 1).min(12)).min(BACK_OFF.1);
        for _ in 0..20 {
            let wait = pause(attempts);
            assert!(wait <= longest && wait >= longest / 2, "{attempts} {wait:?}");
        }
    }
    assert!(pause(u32::MAX) >= BACK_OFF.1 / 2);
}
