//! A fixed piece of work for the compiler: how long it takes says how fast a machine compiles. What is compiled here never changes,
//! because the recorded cost of Flotilla's first command is a multiple of it.

#![crate_type = "lib"]

use std::collections::{BTreeMap, HashMap};

/// Uses that are compiled for each type of key and value.
macro_rules! maps {
    ($($name:ident: $key:ty, $value:ty;)*) => {$(
        pub fn $name(pairs: &[($key, $value)]) -> (BTreeMap<$key, $value>, HashMap<$key, Vec<$value>>) {
            let mut sorted: BTreeMap<$key, $value> = pairs.iter().cloned().collect();
            let mut grouped: HashMap<$key, Vec<$value>> = HashMap::new();
            for (key, value) in pairs {
                grouped.entry(key.clone()).or_default().push(value.clone());
            }
            for values in grouped.values_mut() {
                values.sort();
                values.dedup();
            }
            sorted.retain(|key, value| grouped.get(key).is_some_and(|values| values.contains(value)));
            let last = sorted.pop_last();
            sorted.extend(last);
            (sorted, grouped)
        }
    )*};
}

/// Each key with each value.
macro_rules! types {
    ($($module:ident: $key:ty;)*) => {$(
        pub mod $module {
            use super::{BTreeMap, HashMap};

            maps! {
                bytes: $key, u8;
                shorts: $key, u16;
                words: $key, u32;
                longs: $key, u64;
                texts: $key, String;
                pairs: $key, (u64, String);
                lists: $key, Vec<u32>;
                options: $key, Option<String>;
            }
        }
    )*};
}

types! {
    by_word: u32;
    by_text: String;
    by_option: Option<String>;
}
