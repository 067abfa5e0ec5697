//! Verdicts are reused if no value that the selector reads differs.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;

/// Matches if the attribute `size` is 1, and counts evaluations.
#[derive(Debug)]
struct Counting(Arc<AtomicUsize>);

#[derive(Debug)]
struct IsOne {
    asked: Arc<AtomicUsize>,
    reach: Reach,
}

impl Language for Counting {
    fn compile(&self, expression: &str) -> Result<Box<dyn Selector>, String> {
        let reach = Reach::Some { attributes: vec!["size".into()], capacities: Vec::new() };
        match expression {
            "broken" => Err("no expression".to_owned()),
            _ => Ok(Box::new(IsOne { asked: Arc::clone(&self.0), reach })),
        }
    }
}

impl Selector for IsOne {
    fn matches(&self, _: &str, device: &Device) -> Result<bool, String> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        let size = device.attributes.iter().find(|(name, _)| name.ends_with("size"));
        size.map(|(_, value)| *value == Attribute::Int(1)).ok_or_else(|| "no such key: size".to_owned())
    }

    fn reach(&self) -> &Reach {
        &self.reach
    }
}

fn device(name: &str, size: Option<i64>) -> Device {
    let mut attributes = vec![("name".into(), Attribute::Text(name.into()))];
    attributes.extend(size.map(|size| ("size".into(), Attribute::Int(size))));
    Device { name: name.into(), attributes, ..Device::default() }
}

#[test]
fn one_of_many_equal_devices_is_evaluated() {
    let asked = Arc::new(AtomicUsize::new(0));
    let mut verdicts = Verdicts::new(Arc::new(Counting(Arc::clone(&asked))));
    let selector = verdicts.selector(&"size == 1".into());
    let driver: Arc<str> = "driver".into();
    let subject = |place| Subject { place, serial: 1 };
    for place in 0..1_000 {
        let device = device(&format!("device-{place}"), Some(i64::from(place % 2)));
        let holds = verdicts.matches(selector, subject(place), &driver, &device);
        assert_eq!(holds, Ok(place % 2 == 1));
    }
    assert_eq!(asked.load(Ordering::Relaxed), 2);
    assert_eq!(verdicts.evaluations(), 2);
    let other: Arc<str> = "other".into();
    assert_eq!(verdicts.matches(selector, subject(2_000), &other, &device("a", Some(1))), Ok(true));
    assert_eq!(asked.load(Ordering::Relaxed), 3, "another driver is another device");
}

#[test]
fn a_place_that_is_given_away_again_is_judged_anew() {
    let mut verdicts = Verdicts::new(Arc::new(Counting(Arc::default())));
    let selector = verdicts.selector(&"size == 1".into());
    let driver: Arc<str> = "driver".into();
    let mut ask = |serial, size| {
        let verdict = verdicts.matches(selector, Subject { place: 0, serial }, &driver, &device("a", size));
        verdict.map_err(|error| format!("{error:?}"))
    };
    assert_eq!(ask(1, Some(1)), Ok(true));
    assert_eq!(ask(2, Some(2)), Ok(false));
    assert_eq!(ask(3, None), Err("Runtime(\"no such key: size\")".to_owned()));
    assert_eq!(ask(3, None), Err("Runtime(\"no such key: size\")".to_owned()));
    let broken = verdicts.selector(&"broken".into());
    let verdict = verdicts.matches(broken, Subject { place: 0, serial: 1 }, &driver, &device("a", None));
    assert_eq!(verdict, Err(SelectorError::Compile("no expression")));
}

/// Panics for each device, and for the expression `unreadable`.
#[derive(Debug)]
struct Panics(Reach);

impl Language for Panics {
    fn compile(&self, expression: &str) -> Result<Box<dyn Selector>, String> {
        assert_ne!(expression, "unreadable", "it cannot be read");
        Ok(Box::new(Self(Reach::All)))
    }
}

impl Selector for Panics {
    fn matches(&self, _: &str, _: &Device) -> Result<bool, String> {
        panic!("it went wrong")
    }

    fn reach(&self) -> &Reach {
        &self.0
    }
}

#[test]
fn a_selector_that_panics_is_an_error_of_the_selector() {
    let mut verdicts = Verdicts::new(Arc::new(Panics(Reach::All)));
    let (selector, unreadable) = (verdicts.selector(&"selector".into()), verdicts.selector(&"unreadable".into()));
    let (driver, device) = ("driver".into(), device("a", None));
    for _ in 0..2 {
        let verdict = verdicts.matches(selector, Subject { place: 0, serial: 1 }, &driver, &device);
        assert_eq!(verdict, Err(SelectorError::Runtime("internal error: it went wrong")));
    }
    let verdict = verdicts.matches(unreadable, Subject { place: 0, serial: 1 }, &driver, &device);
    assert!(
        matches!(verdict, Err(SelectorError::Compile(error)) if error.contains("it cannot be read")),
        "{verdict:?}"
    );
}

#[test]
fn an_expression_that_there_is_no_work_to_read_is_read_later() {
    let mut verdicts = Verdicts::new(Arc::new(Counting(Arc::default())));
    verdicts.replace_work(Work::of(10));
    let (driver, device) = ("driver".into(), device("a", Some(1)));
    let selector = verdicts.selector(&"some expression".into());
    let subject = Subject { place: 0, serial: 1 };
    assert_eq!(verdicts.matches(selector, subject, &driver, &device), Err(SelectorError::Exhausted));
    verdicts.replace_work(Work::default());
    let selector = verdicts.selector(&"some expression".into());
    assert_eq!(verdicts.matches(selector, subject, &driver, &device), Ok(true));
}
