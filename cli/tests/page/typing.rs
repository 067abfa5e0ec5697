//! Keyboard input.

use serde_json::json;

use crate::browser::Browser;

impl Browser {
    /// Inserts a text at the focus.
    pub(crate) fn insert(&mut self, text: &str) {
        self.call("Input.insertText", json!({"text": text}));
    }

    pub(crate) fn press_with_ctrl(&mut self, key: &str, code: u32, commands: &[&str]) {
        let key = json!({"type": "rawKeyDown", "key": key, "windowsVirtualKeyCode": code, "modifiers": 2, "commands": commands});
        self.call("Input.dispatchKeyEvent", key.clone());
        let mut up = key;
        up["type"] = json!("keyUp");
        self.call("Input.dispatchKeyEvent", up);
    }
}
