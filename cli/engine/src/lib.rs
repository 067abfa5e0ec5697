//! The functions that a page calls: bytes in, bytes out.
//!
//! The page writes bytes to where [`flotilla_input`] says, calls [`flotilla_open`] once with the cluster of its report, or
//! [`flotilla_ask`] with a [`Request`] in JSON, and reads as many bytes as that returns from where [`flotilla_output`] says: a
//! [`Response`] in JSON. After a panic the module is of no use any more, and [`flotilla_last_words`] says what it was.
//!
//! Knows: how bytes come and go. Must not know: what is asked, or what is answered.

use std::{cell::RefCell, sync::Mutex};

use flotilla_account::question::{Answer, Desk, Question};
use flotilla_framework::registry::Registry;
use serde::{Deserialize, Serialize};

/// What a page asks for.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub enum Request {
    /// The manifest of a pending pod, as `namespace/name`.
    Manifest(String),
    /// What nodes make of pods.
    Ask(Question),
}

/// What it gets.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Response {
    /// The cluster is known from now on.
    Opened,
    /// A manifest in YAML; nothing where the report has none.
    Manifest(Option<String>),
    /// What nodes make of pods.
    Answer(Answer),
    /// What is wrong with the question, a line each.
    Wrong(Vec<String>),
}

#[derive(Default)]
struct State {
    input: Vec<u8>,
    output: Vec<u8>,
    desk: Option<Desk>,
}

thread_local! {
    static STATE: RefCell<State> = RefCell::default();
}

/// What a panic said: [`STATE`] is borrowed when one happens.
static LAST_WORDS: Mutex<Vec<u8>> = Mutex::new(Vec::new());

// Why the attributes below are sound: each name is exported by this module alone, which links no other code that could call or
// define a function of that name. No function takes a pointer, and none reads one. The page writes only within the `length` bytes
// that `flotilla_input` has just allocated, and not while Rust runs: a module without threads returns before anything else does.

/// Makes room for so many bytes of input, and says where.
#[unsafe(no_mangle)]
#[expect(unsafe_code, reason = "the name of an export; see above")]
pub extern "C" fn flotilla_input(length: usize) -> *mut u8 {
    STATE.with_borrow_mut(|state| {
        state.input = vec![0; length];
        state.input.as_mut_ptr()
    })
}

/// Takes the input for the cluster that is asked about from now on. Returns how many bytes the output has.
#[unsafe(no_mangle)]
#[expect(unsafe_code, reason = "the name of an export; see above")]
pub extern "C" fn flotilla_open() -> usize {
    std::panic::set_hook(Box::new(|panic| {
        if let Ok(mut words) = LAST_WORDS.lock() {
            *words = panic.to_string().into_bytes();
        }
    }));
    respond(|state, input| match Desk::open(&input, Registry::built_in()) {
        Ok(desk) => {
            state.desk = Some(desk);
            Response::Opened
        }
        Err(error) => Response::Wrong(vec![error.to_string()]),
    })
}

/// Takes the input for a [`Request`]. Returns how many bytes the output has.
#[unsafe(no_mangle)]
#[expect(unsafe_code, reason = "the name of an export; see above")]
pub extern "C" fn flotilla_ask() -> usize {
    respond(|state, input| {
        let Some(desk) = &state.desk else { return Response::Wrong(vec!["no cluster is known yet".to_owned()]) };
        match serde_json::from_slice(&input) {
            Ok(Request::Manifest(pod)) => Response::Manifest(desk.manifest(&pod)),
            Ok(Request::Ask(question)) => desk.ask(&question).map_or_else(Response::Wrong, Response::Answer),
            Err(error) => Response::Wrong(vec![format!("the question cannot be read: {error}")]),
        }
    })
}

/// Where the output begins.
#[unsafe(no_mangle)]
#[expect(unsafe_code, reason = "the name of an export; see above")]
pub extern "C" fn flotilla_output() -> *const u8 {
    STATE.with_borrow(|state| state.output.as_ptr())
}

/// How many bytes there are of what a panic said.
#[unsafe(no_mangle)]
#[expect(unsafe_code, reason = "the name of an export; see above")]
pub extern "C" fn flotilla_last_words() -> usize {
    LAST_WORDS.lock().map_or(0, |words| words.len())
}

/// Where what a panic said begins.
#[unsafe(no_mangle)]
#[expect(unsafe_code, reason = "the name of an export; see above")]
pub extern "C" fn flotilla_last_words_at() -> *const u8 {
    LAST_WORDS.lock().map_or(std::ptr::null(), |words| words.as_ptr())
}

fn respond(make: impl FnOnce(&mut State, Vec<u8>) -> Response) -> usize {
    STATE.with_borrow_mut(|state| {
        let input = std::mem::take(&mut state.input);
        let response = make(state, input);
        state.output = serde_json::to_vec(&response).unwrap_or_default();
        state.output.len()
    })
}
