//! Durations and timestamps: parsing, arithmetic, calendar fields and printing.

use std::{cmp::Ordering, sync::LazyLock};

use jiff::tz::TimeZoneDatabase;

use crate::value::Failure;

/// First and last second of a timestamp: years 1 to 9999.
const MIN_SECOND: i64 = -62_135_596_800;
const MAX_SECOND: i64 = 253_402_300_799;
const NANOSECONDS: i64 = 1_000_000_000;

/// The time zone database is bundled; the host's is not read.
static ZONES: LazyLock<TimeZoneDatabase> = LazyLock::new(TimeZoneDatabase::bundled);

/// A point in time and its offset in seconds east of UTC. The offset affects only the text.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timestamp {
    second: i64,
    nanosecond: u32,
    zone: i64,
}

impl PartialEq for Timestamp {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Timestamp {}

impl PartialOrd for Timestamp {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Timestamp {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.second, self.nanosecond).cmp(&(other.second, other.nanosecond))
    }
}

pub(crate) struct Civil {
    pub(crate) year: i64,
    /// From 0.
    pub(crate) month: i64,
    /// From 1.
    pub(crate) day: i64,
    pub(crate) hour: i64,
    pub(crate) minute: i64,
    pub(crate) second: i64,
    pub(crate) millisecond: i64,
    /// From 0.
    pub(crate) day_of_year: i64,
    /// From 0 for Sunday.
    pub(crate) day_of_week: i64,
}

fn overflow() -> Failure {
    Failure::new("integer overflow")
}

fn timestamp_overflow() -> Failure {
    Failure::new("timestamp overflow")
}

impl Timestamp {
    /// Creates a timestamp from seconds since 1970. Returns an error outside the years 1 to 9999.
    pub(crate) fn from_seconds(second: i64) -> Result<Self, Failure> {
        Self::new(second, 0, 0)
    }

    fn new(second: i64, nanosecond: u32, zone: i64) -> Result<Self, Failure> {
        if (MIN_SECOND..=MAX_SECOND).contains(&second) {
            Ok(Self { second, nanosecond, zone })
        } else {
            Err(timestamp_overflow())
        }
    }

    pub(crate) fn seconds(self) -> i64 {
        self.second
    }

    /// Whether it is Go's zero time.
    pub(crate) fn is_zero(self) -> bool {
        self.second == MIN_SECOND && self.nanosecond == 0
    }

    /// Adds a duration in nanoseconds. Returns an error outside the years 1 to 9999.
    pub(crate) fn add(self, duration: i64) -> Result<Self, Failure> {
        let nanosecond = i64::from(self.nanosecond) + duration % NANOSECONDS;
        let second = self.second.checked_add(duration / NANOSECONDS).ok_or_else(timestamp_overflow)?;
        let second = second.checked_add(nanosecond.div_euclid(NANOSECONDS)).ok_or_else(timestamp_overflow)?;
        Self::new(second, nanosecond.rem_euclid(NANOSECONDS) as u32, self.zone)
    }

    /// Nanoseconds since another time, or an error on overflow.
    pub(crate) fn since(self, other: Self) -> Result<i64, Failure> {
        let seconds = self.second - other.second;
        let whole = seconds.checked_mul(NANOSECONDS).ok_or_else(duration_overflow)?;
        whole.checked_add(i64::from(self.nanosecond) - i64::from(other.nanosecond)).ok_or_else(duration_overflow)
    }

    /// Calendar fields in a time zone, given as a name or as an offset in hours and minutes. Returns an error for an unknown zone.
    pub(crate) fn civil(self, zone: &str) -> Result<Civil, Failure> {
        let local = self.second + offset_of(zone, self)?;
        let days = local.div_euclid(86_400);
        let second = local.rem_euclid(86_400);
        let (year, month, day) = date(days);
        Ok(Civil {
            year,
            month: month - 1,
            day,
            hour: second / 3600,
            minute: second / 60 % 60,
            second: second % 60,
            millisecond: i64::from(self.nanosecond) / 1_000_000,
            day_of_year: days - days_of(year, 1, 1),
            day_of_week: (days + 4).rem_euclid(7),
        })
    }

    /// RFC 3339 in its shortest form.
    pub(crate) fn rfc3339(self) -> String {
        let (date, time) = self.written();
        match self.zone {
            0 => format!("{date}T{time}Z"),
            zone => format!("{date}T{time}{}", offset(zone, ":")),
        }
    }

    /// As Go prints it.
    pub(crate) fn show(self) -> String {
        let (date, time) = self.written();
        match self.zone {
            0 => format!("{date} {time} +0000 UTC"),
            zone => format!("{date} {time} {0} {0}", offset(zone, "")),
        }
    }

    fn written(self) -> (String, String) {
        let local = self.second + self.zone;
        let (year, month, day) = date(local.div_euclid(86_400));
        let second = local.rem_euclid(86_400);
        let fraction = format!(".{:09}", self.nanosecond);
        let fraction = fraction.trim_end_matches('0').trim_end_matches('.');
        let time = format!("{:02}:{:02}:{:02}{fraction}", second / 3600, second / 60 % 60, second % 60);
        (format!("{year:04}-{month:02}-{day:02}"), time)
    }

    /// Parses RFC 3339 as Go does: also a comma before the fraction, and an hour of one digit. `None` if it is not a timestamp; an error if
    /// the year is out of range.
    pub(crate) fn parse(text: &str) -> Option<Result<Self, Failure>> {
        let mut rest = text;
        let year = figures(&mut rest, 4)?;
        let month = after(&mut rest, '-').and_then(|()| figures(&mut rest, 2))?;
        let day = after(&mut rest, '-').and_then(|()| figures(&mut rest, 2))?;
        after(&mut rest, 'T')?;
        let hour = figures(&mut rest, 2).or_else(|| figures(&mut rest, 1))?;
        let minute = after(&mut rest, ':').and_then(|()| figures(&mut rest, 2))?;
        let second = after(&mut rest, ':').and_then(|()| figures(&mut rest, 2))?;
        let nanosecond = fraction(&mut rest);
        let offset = zone(rest)?;
        let leap = i64::from(month == 2 && year % 4 == 0 && (year % 100 != 0 || year % 400 == 0));
        let length = *[31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31].get(usize::try_from(month - 1).ok()?)? + leap;
        if !(1..=length).contains(&day) || hour > 23 || minute > 59 || second > 59 {
            return None;
        }
        let local = days_of(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second;
        Some(Self::new(local - offset, nanosecond, offset))
    }
}

fn figures(rest: &mut &str, count: usize) -> Option<i64> {
    let taken = rest.get(..count).filter(|taken| taken.bytes().all(|one| one.is_ascii_digit()))?;
    *rest = &rest[count..];
    taken.parse().ok()
}

fn after(rest: &mut &str, sign: char) -> Option<()> {
    *rest = rest.strip_prefix(sign)?;
    Some(())
}

fn fraction(rest: &mut &str) -> u32 {
    let Some(behind) = rest.strip_prefix(['.', ',']) else { return 0 };
    let length = behind.bytes().take_while(u8::is_ascii_digit).count();
    if length == 0 {
        return 0;
    }
    *rest = &behind[length..];
    let padded = format!("{:0<9}", &behind[..length.min(9)]);
    padded.parse().unwrap_or_default()
}

fn zone(text: &str) -> Option<i64> {
    if text == "Z" {
        return Some(0);
    }
    let (sign, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text.strip_prefix('+')?),
    };
    let hours = figures(&mut rest, 2)?;
    let minutes = after(&mut rest, ':').and_then(|()| figures(&mut rest, 2))?;
    (rest.is_empty() && hours <= 24 && minutes <= 60).then_some(sign * (hours * 3600 + minutes * 60))
}

fn offset(zone: i64, colon: &str) -> String {
    let minutes = zone.abs() / 60;
    format!("{}{:02}{colon}{:02}", if zone < 0 { '-' } else { '+' }, minutes / 60, minutes % 60)
}

fn offset_of(zone: &str, at: Timestamp) -> Result<i64, Failure> {
    if let Some((hours, minutes)) = zone.split_once(':') {
        let hours = atoi(hours)?;
        let minutes = atoi(minutes)?;
        let offset = if zone.starts_with('-') { hours * 60 - minutes } else { hours * 60 + minutes };
        return Ok(offset * 60);
    }
    if matches!(zone, "" | "UTC" | "Local") {
        return Ok(0);
    }
    if zone.contains("..") || zone.starts_with(['/', '\\']) {
        return Err(Failure::new("time: invalid location name"));
    }
    let unknown = || Failure::new(format!("unknown time zone {zone}"));
    let found = ZONES.get(zone).map_err(|_| unknown())?;
    if found.iana_name() != Some(zone) {
        return Err(unknown());
    }
    let instant = jiff::Timestamp::from_second(at.second).map_err(|_| unknown())?;
    Ok(i64::from(found.to_offset(instant).seconds()))
}

fn atoi(text: &str) -> Result<i64, Failure> {
    let told = || Failure::new(format!("strconv.Atoi: parsing {}: invalid syntax", crate::go::quote(text)));
    let value: i64 = text.parse().map_err(|_| told())?;
    if value.abs() < 1_000_000 { Ok(value) } else { Err(told()) }
}

/// Days since 1970 of a date; months and days from 1.
fn days_of(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

/// Year, month and day; both from 1.
fn date(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month, day)
}

pub(crate) fn duration_overflow() -> Failure {
    overflow()
}

/// Parses a duration as Go does: `1h30m`, `-1.5s`, `0`.
pub(crate) fn parse_duration(text: &str) -> Option<i64> {
    const LIMIT: u64 = 1 << 63;
    let (negative, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Some(0);
    }
    if rest.is_empty() {
        return None;
    }
    let mut total: u64 = 0;
    while !rest.is_empty() {
        let whole = rest.bytes().take_while(u8::is_ascii_digit).count();
        let mut value: u64 = if whole == 0 { 0 } else { rest[..whole].parse().ok().filter(|value| *value <= LIMIT)? };
        rest = &rest[whole..];
        let (mut part, mut scale, mut fraction) = (0_u64, 1.0_f64, 0);
        if let Some(behind) = rest.strip_prefix('.') {
            fraction = behind.bytes().take_while(u8::is_ascii_digit).count();
            for figure in behind[..fraction].bytes() {
                if part > (LIMIT - 1) / 10 {
                    break;
                }
                part = part * 10 + u64::from(figure - b'0');
                scale *= 10.0;
            }
            rest = &behind[fraction..];
        }
        if whole + fraction == 0 {
            return None;
        }
        let end = rest.find(|one: char| one == '.' || one.is_ascii_digit()).unwrap_or(rest.len());
        let unit = unit(&rest[..end])?;
        rest = &rest[end..];
        value = value.checked_mul(unit).filter(|value| *value <= LIMIT)?;
        value += (part as f64 * (unit as f64 / scale)) as u64;
        total = total.checked_add(value).filter(|total| value <= LIMIT && *total <= LIMIT)?;
    }
    if negative { Some((total as i64).wrapping_neg()) } else { i64::try_from(total).ok() }
}

fn unit(name: &str) -> Option<u64> {
    Some(match name {
        "ns" => 1,
        "us" | "\u{b5}s" | "\u{3bc}s" => 1000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        _ => return None,
    })
}

/// A duration in seconds, as Go's `Seconds`.
pub(crate) fn seconds(nanoseconds: i64) -> f64 {
    (nanoseconds / NANOSECONDS) as f64 + (nanoseconds % NANOSECONDS) as f64 / 1e9
}

/// Prints a duration as Go does: `1h0m0s`, `1.5ms`.
pub(crate) fn show_duration(nanoseconds: i64) -> String {
    let sign = if nanoseconds < 0 { "-" } else { "" };
    let all = nanoseconds.unsigned_abs();
    let decimal = |unit: u64| {
        let width = unit.ilog10() as usize;
        let fraction = format!(".{:0width$}", all % unit);
        format!("{}{}", all / unit, fraction.trim_end_matches('0').trim_end_matches('.'))
    };
    match all {
        0 => "0s".to_owned(),
        1..1000 => format!("{sign}{all}ns"),
        1000..1_000_000 => format!("{sign}{}\u{b5}s", decimal(1000)),
        1_000_000..1_000_000_000 => format!("{sign}{}ms", decimal(1_000_000)),
        _ => {
            let second = all / 1_000_000_000;
            let fraction = format!(".{:09}", all % 1_000_000_000);
            let fraction = fraction.trim_end_matches('0').trim_end_matches('.');
            let seconds = format!("{}{fraction}s", second % 60);
            match second {
                0..60 => format!("{sign}{seconds}"),
                60..3600 => format!("{sign}{}m{seconds}", second / 60),
                _ => format!("{sign}{}h{}m{seconds}", second / 3600, second / 60 % 60),
            }
        }
    }
}
