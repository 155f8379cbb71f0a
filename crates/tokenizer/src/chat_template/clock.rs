//! The time that a template may ask for, and how it writes it.
//!
//! [`LocalTime`] is an input of a render; nothing here reads a clock or a time zone. [`LocalTime::format`] follows Python's
//! `strftime` in the C locale, which is what the templates were written for, without its ways of counting weeks.

use std::fmt::Write;

const WEEKDAYS: [&str; 7] = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];
const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

/// A moment as a clock on the wall shows it, in the years 1000 to 9999 of the Gregorian calendar.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LocalTime {
    year: i64,
    /// From 1.
    month: i64,
    /// From 1.
    day: i64,
    second_of_day: i64,
    /// Days since the first of January 1970, a Thursday.
    days: i64,
}

impl LocalTime {
    /// The moment `seconds` after the beginning of 1970 in UTC, on a clock that runs `offset_seconds` ahead of UTC.
    /// `None` outside of the years 1000 to 9999.
    pub fn from_unix(seconds: i64, offset_seconds: i32) -> Option<LocalTime> {
        let local = seconds.checked_add(i64::from(offset_seconds))?;
        let days = local.div_euclid(86_400);
        // The calendar repeats every 400 years of 146 097 days; years are counted from March, so that a leap day comes last.
        let shifted = days.checked_add(719_468)?;
        let (era, day_of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
        let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let month_from_march = (5 * day_of_year + 2) / 153;
        let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
        let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
        let year = year_of_era + era * 400 + i64::from(month <= 2);
        (1000..=9999).contains(&year).then_some(LocalTime {
            year,
            month,
            day,
            second_of_day: local.rem_euclid(86_400),
            days,
        })
    }

    /// Writes the time as `format` says. `Err` carries the directive that is not known.
    pub(super) fn format(&self, format: &str) -> Result<String, String> {
        let mut out = String::new();
        let mut rest = format.chars();
        while let Some(c) = rest.next() {
            if c != '%' {
                out.push(c);
                continue;
            }
            let Some(first) = rest.next() else { return Err("%".to_owned()) };
            let (pad, directive) = match first {
                '-' | '_' | '0' => (Some(first), rest.next()),
                _ => (None, Some(first)),
            };
            let known = directive.is_some_and(|directive| self.write(directive, pad, &mut out));
            if !known {
                return Err(["%"]
                    .into_iter()
                    .map(String::from)
                    .chain(pad.map(String::from))
                    .chain(directive.map(String::from))
                    .collect());
            }
        }
        Ok(out)
    }

    /// Writes one directive; `false` if it is not known.
    fn write(&self, directive: char, pad: Option<char>, out: &mut String) -> bool {
        if let Some((value, width, fill)) = self.number(directive) {
            let written = match pad.unwrap_or(fill) {
                '-' => write!(out, "{value}"),
                '_' => write!(out, "{value:width$}"),
                _ => write!(out, "{value:0width$}"),
            };
            return written.is_ok();
        }
        let weekday = WEEKDAYS[usize::try_from(self.weekday()).unwrap_or(0)];
        let month = MONTHS[usize::try_from(self.month - 1).unwrap_or(0)];
        let composed = match directive {
            'a' => return append(out, &weekday[..3]),
            'A' => return append(out, weekday),
            'b' | 'h' => return append(out, &month[..3]),
            'B' => return append(out, month),
            'p' => return append(out, if self.hour() < 12 { "AM" } else { "PM" }),
            '%' => return append(out, "%"),
            'n' => return append(out, "\n"),
            't' => return append(out, "\t"),
            // A time without a zone, as the reference passes it, has neither an offset nor a name.
            'z' | 'Z' => return true,
            'c' => "%a %b %e %H:%M:%S %Y",
            'x' | 'D' => "%m/%d/%y",
            'X' | 'T' => "%H:%M:%S",
            'F' => "%Y-%m-%d",
            'R' => "%H:%M",
            'r' => "%I:%M:%S %p",
            _ => return false,
        };
        self.format(composed).is_ok_and(|text| append(out, &text))
    }

    /// The value, width and filling of a directive that stands for a number.
    fn number(&self, directive: char) -> Option<(i64, usize, char)> {
        let day_of_year = self.day_of_year();
        Some(match directive {
            'd' => (self.day, 2, '0'),
            'e' => (self.day, 2, '_'),
            'm' => (self.month, 2, '0'),
            'y' => (self.year % 100, 2, '0'),
            'Y' => (self.year, 4, '0'),
            'C' => (self.year / 100, 2, '0'),
            'H' => (self.hour(), 2, '0'),
            'k' => (self.hour(), 2, '_'),
            'I' => ((self.hour() + 11) % 12 + 1, 2, '0'),
            'l' => ((self.hour() + 11) % 12 + 1, 2, '_'),
            'M' => (self.second_of_day / 60 % 60, 2, '0'),
            'S' => (self.second_of_day % 60, 2, '0'),
            'f' => (0, 6, '0'),
            'j' => (day_of_year, 3, '0'),
            'u' => (self.weekday() + 1, 1, '-'),
            'w' => ((self.weekday() + 1) % 7, 1, '-'),
            _ => return None,
        })
    }

    fn hour(&self) -> i64 {
        self.second_of_day / 3600
    }

    /// From 0, a Monday.
    fn weekday(&self) -> i64 {
        (self.days + 3).rem_euclid(7)
    }

    /// From 1.
    fn day_of_year(&self) -> i64 {
        const BEFORE: [i64; 12] = [0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334];
        let before = BEFORE[usize::try_from(self.month - 1).unwrap_or(0)];
        before + self.day + i64::from(self.month > 2 && is_leap(self.year))
    }
}

fn append(out: &mut String, text: &str) -> bool {
    out.push_str(text);
    true
}

fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

#[cfg(test)]
mod tests {
    use super::LocalTime;

    /// Written by Python's `datetime.strftime`.
    const FORMAT: &str =
        "%a %A %w %d %b %B %m %y %Y %H %I %p %M %S %f %j %c %x %X %% %e %D %F %T %R %h %u %C %-d %-m %_d %-H %k %l %-j";
    const CASES: [(i64, &str); 8] = [
        (
            0,
            "Thu Thursday 4 01 Jan January 01 70 1970 00 12 AM 00 00 000000 001 \
             Thu Jan  1 00:00:00 1970 01/01/70 00:00:00 %  1 01/01/70 1970-01-01 00:00:00 00:00 Jan 4 19 1 1  1 0  0 12 1",
        ),
        (
            1_721_988_000,
            "Fri Friday 5 26 Jul July 07 24 2024 10 10 AM 00 00 000000 208 \
             Fri Jul 26 10:00:00 2024 07/26/24 10:00:00 % 26 07/26/24 2024-07-26 10:00:00 10:00 Jul 5 20 26 7 26 10 10 10 208",
        ),
        (
            951_782_400,
            "Tue Tuesday 2 29 Feb February 02 00 2000 00 12 AM 00 00 000000 060 \
             Tue Feb 29 00:00:00 2000 02/29/00 00:00:00 % 29 02/29/00 2000-02-29 00:00:00 00:00 Feb 2 20 29 2 29 0  0 12 60",
        ),
        (
            253_402_300_799,
            "Fri Friday 5 31 Dec December 12 99 9999 23 11 PM 59 59 000000 365 \
             Fri Dec 31 23:59:59 9999 12/31/99 23:59:59 % 31 12/31/99 9999-12-31 23:59:59 23:59 Dec 5 99 31 12 31 23 23 11 365",
        ),
        (
            1_483_228_799,
            "Sat Saturday 6 31 Dec December 12 16 2016 23 11 PM 59 59 000000 366 \
             Sat Dec 31 23:59:59 2016 12/31/16 23:59:59 % 31 12/31/16 2016-12-31 23:59:59 23:59 Dec 6 20 31 12 31 23 23 11 366",
        ),
        (
            4_107_542_399,
            "Sun Sunday 0 28 Feb February 02 00 2100 23 11 PM 59 59 000000 059 \
             Sun Feb 28 23:59:59 2100 02/28/00 23:59:59 % 28 02/28/00 2100-02-28 23:59:59 23:59 Feb 7 21 28 2 28 23 23 11 59",
        ),
        (
            1_735_603_200,
            "Tue Tuesday 2 31 Dec December 12 24 2024 00 12 AM 00 00 000000 366 \
             Tue Dec 31 00:00:00 2024 12/31/24 00:00:00 % 31 12/31/24 2024-12-31 00:00:00 00:00 Dec 2 20 31 12 31 0  0 12 366",
        ),
        (
            -30_610_224_000,
            "Wed Wednesday 3 01 Jan January 01 00 1000 00 12 AM 00 00 000000 001 \
             Wed Jan  1 00:00:00 1000 01/01/00 00:00:00 %  1 01/01/00 1000-01-01 00:00:00 00:00 Jan 3 10 1 1  1 0  0 12 1",
        ),
    ];

    #[test]
    fn times_read_as_python_writes_them() {
        for (seconds, expected) in CASES {
            assert_eq!(LocalTime::from_unix(seconds, 0).unwrap().format(FORMAT).unwrap(), expected);
        }
        let ahead = LocalTime::from_unix(1_721_988_000, 7200).unwrap();
        assert_eq!(ahead.format("%d %b %Y %H:%M").unwrap(), "26 Jul 2024 12:00");
    }

    #[test]
    fn what_is_unknown_or_out_of_range_is_refused() {
        let time = LocalTime::from_unix(0, 0).unwrap();
        for (format, directive) in [("%Q", "%Q"), ("100%", "%"), ("%-", "%-"), ("%-é", "%-é"), ("%V", "%V")] {
            assert_eq!(time.format(format).unwrap_err(), directive);
        }
        for seconds in [i64::MIN, i64::MAX, -62_135_596_801, 253_402_300_800] {
            assert_eq!(LocalTime::from_unix(seconds, i32::MAX), None);
        }
    }
}
