//! The time, as it is written into files.

use std::time::{SystemTime, UNIX_EPOCH};

/// Returns the time now: UTC, ISO 8601, whole seconds.
pub(crate) fn utc_now() -> String {
    iso_utc(SystemTime::now())
}

/// Formats a time as `2026-11-21T05:07:08Z`. The date is computed in 400-year cycles from 1 March
/// of year 0, so that the leap day is the last day of a year.
fn iso_utc(time: SystemTime) -> String {
    let seconds = time.duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs());
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    let days = days + 719_468; // 1970-01-01 counted from 0000-03-01
    let (cycle, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153; // from March; 153 days are five months
    let day_of_month = day - (153 * month + 2) / 5 + 1;
    let (month, january_on) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    format!(
        "{:04}-{month:02}-{day_of_month:02}T{:02}:{:02}:{:02}Z",
        cycle * 400 + year + january_on,
        second / 3600,
        second / 60 % 60,
        second % 60
    )
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn seconds_become_a_date() {
        let at = |seconds| iso_utc(UNIX_EPOCH + Duration::from_secs(seconds));
        assert_eq!(at(0), "1970-01-01T00:00:00Z");
        assert_eq!(at(951_782_399), "2000-02-28T23:59:59Z");
        assert_eq!(at(951_782_400), "2000-02-29T00:00:00Z");
        assert_eq!(at(951_868_800), "2000-03-01T00:00:00Z");
        assert_eq!(at(1_735_689_599), "2024-12-31T23:59:59Z");
        assert_eq!(at(4_107_542_400), "2100-03-01T00:00:00Z");
    }
}
