//! The functions that a page calls, with bytes as input and output.
//!
//! The page writes bytes to the address from [`flotilla_input`]. It calls [`flotilla_open`] once with the cluster of its report, and
//! [`flotilla_ask`] with a [`Request`] in JSON. Both return the length of the [`Response`] in JSON at the address from [`flotilla_output`].
//! After a panic the module is unusable, and [`flotilla_last_words`] returns the length of the panic message.
//!
//! Contains: the passing of bytes. Does not depend on: questions or answers.

use std::{cell::RefCell, sync::Mutex};

use flotilla_account::question::{Answer, Desk, Question};
use flotilla_framework::registry::Registry;
use serde::{Deserialize, Serialize};

/// A request of the page.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub enum Request {
    /// The manifest of a pending pod, as `namespace/name`.
    Manifest(String),
    /// Evaluate pods.
    Ask(Question),
}

/// The response.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Response {
    /// The cluster is decoded.
    Opened,
    /// A manifest in YAML; null if the report has none.
    Manifest(Option<String>),
    /// The answer to a question.
    Answer(Answer),
    /// Errors in the question, one line each.
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

/// The message of a panic. It is separate because [`STATE`] is borrowed during a panic.
static LAST_WORDS: Mutex<Vec<u8>> = Mutex::new(Vec::new());

// Why the attributes below are sound: each name is exported by this module alone, which links no other code that could call or
// define a function of that name. No function takes a pointer, and none reads one. The page writes only within the `length` bytes
// that `flotilla_input` has just allocated, and not while Rust runs: a module without threads returns before anything else does.

/// Allocates `length` bytes of input; returns their address.
#[unsafe(no_mangle)]
#[expect(unsafe_code, reason = "the name of an export; see above")]
pub extern "C" fn flotilla_input(length: usize) -> *mut u8 {
    STATE.with_borrow_mut(|state| {
        state.input = vec![0; length];
        state.input.as_mut_ptr()
    })
}

/// Decodes the input as the cluster. Returns the length of the output.
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

/// Answers a [`Request`] in the input. Returns the length of the output.
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

/// The address of the output.
#[unsafe(no_mangle)]
#[expect(unsafe_code, reason = "the name of an export; see above")]
pub extern "C" fn flotilla_output() -> *const u8 {
    STATE.with_borrow(|state| state.output.as_ptr())
}

/// The length of the panic message.
#[unsafe(no_mangle)]
#[expect(unsafe_code, reason = "the name of an export; see above")]
pub extern "C" fn flotilla_last_words() -> usize {
    LAST_WORDS.lock().map_or(0, |words| words.len())
}

/// The address of the panic message.
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
