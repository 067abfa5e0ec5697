//! Controls a headless Chromium over the pipes of its DevTools protocol.

use std::{
    env, fs,
    io::{BufRead as _, BufReader, Write as _},
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Value, json};
use tempfile::TempDir;

/// File names of the browser.
const NAMES: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];
/// A busy machine takes seconds to start it.
const PATIENCE: Duration = Duration::from_secs(120);
const LOOK: Duration = Duration::from_millis(50);

/// A browser with one page. Dropping it stops the process.
pub(crate) struct Browser {
    process: Child,
    commands: fs::File,
    answers: BufReader<fs::File>,
    session: Option<String>,
    next: u64,
    /// Unexpected errors of the page.
    pub(crate) complaints: Vec<String>,
    pub(crate) requests: Vec<String>,
    _folder: TempDir,
}

pub(crate) fn find() -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    env::split_paths(&path).flat_map(|folder| NAMES.map(|name| folder.join(name))).find(|program| program.is_file())
}

impl Browser {
    pub(crate) fn start(program: &Path, (width, height): (u32, u32)) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let [commands, answers] = ["commands", "answers"].map(|name| folder.path().join(name));
        let made = Command::new("mkfifo").args([&commands, &answers]).status().expect("mkfifo runs");
        assert!(made.success(), "mkfifo: {made}");
        // Chromium reads commands from file descriptor 3 and writes answers to 4.
        let process = Command::new("sh")
            .args(["-c", "exec \"$0\" \"$@\" 3<\"$COMMANDS\" 4>\"$ANSWERS\""])
            .arg(program)
            .args([
                "--headless=new",
                "--remote-debugging-pipe",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-dev-shm-usage",
            ])
            .args([
                "--no-first-run",
                "--disable-background-networking",
                "--disable-component-update",
                "--hide-scrollbars",
            ])
            .args([
                "--disable-extensions",
                "--disable-sync",
                "--force-color-profile=srgb",
                "--font-render-hinting=none",
            ])
            .arg(format!("--user-data-dir={}", folder.path().join("profile").display()))
            .arg("about:blank")
            .envs([("COMMANDS", &commands), ("ANSWERS", &answers)])
            .env("HOME", folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .expect("Chromium starts");
        let commands = fs::OpenOptions::new().write(true).open(commands).expect("the pipe of commands");
        let answers = BufReader::new(fs::File::open(answers).expect("the pipe of answers"));
        let (complaints, requests) = (Vec::new(), Vec::new());
        let mut browser =
            Self { process, commands, answers, session: None, next: 0, complaints, requests, _folder: folder };
        let target = browser.call("Target.createTarget", json!({"url": "about:blank"}));
        let target = json!({"targetId": target["targetId"], "flatten": true});
        let session = browser.call("Target.attachToTarget", target);
        browser.session = session["sessionId"].as_str().map(str::to_owned);
        for domain in ["Page", "Runtime", "Log", "Network"] {
            browser.call(&format!("{domain}.enable"), json!({}));
        }
        let size = json!({"width": width, "height": height, "deviceScaleFactor": 1.5, "mobile": false});
        browser.call("Emulation.setDeviceMetricsOverride", size);
        browser
    }

    pub(crate) fn prefer(&mut self, scheme: &str) {
        let features = json!({"features": [{"name": "prefers-color-scheme", "value": scheme}]});
        self.call("Emulation.setEmulatedMedia", features);
    }

    pub(crate) fn open(&mut self, url: &str) {
        self.requests.clear();
        // Navigation to another fragment of the same page does not load it.
        self.call("Page.navigate", json!({"url": "about:blank"}));
        let loaded = self.call("Page.navigate", json!({"url": url}));
        assert_eq!(loaded.get("errorText"), None, "{url}: {loaded}");
        self.wait("document.readyState === 'complete' && location.href !== 'about:blank'");
    }

    pub(crate) fn value(&mut self, expression: &str) -> Value {
        let asked = json!({"expression": expression, "returnByValue": true, "awaitPromise": true});
        let mut answer = self.call("Runtime.evaluate", asked);
        assert_eq!(answer.get("exceptionDetails"), None, "{expression}: {answer}");
        answer["result"]["value"].take()
    }

    /// Waits until an expression is true.
    pub(crate) fn wait(&mut self, expression: &str) {
        let began = Instant::now();
        while self.value(expression) != json!(true) {
            assert!(began.elapsed() < PATIENCE, "not true after {PATIENCE:?}: {expression}; {:?}", self.complaints);
            thread::sleep(LOOK);
        }
        self.settle();
    }

    /// Lets the page handle queued events: an address changes before the page receives the event and shows the view.
    fn settle(&mut self) {
        self.value(
            "new Promise((done) => setTimeout(() => setTimeout(() => requestAnimationFrame(() => done(true)))))",
        );
    }

    /// Clicks on the element of an expression.
    pub(crate) fn click(&mut self, element: &str) {
        self.wait(&format!("Boolean({element})"));
        let place = self.value(&format!(
            "(() => {{ const e = {element}; e.scrollIntoView({{block: 'nearest'}}); const b = e.getBoundingClientRect(); \
             return [b.left + b.width / 2, b.top + b.height / 2]; }})()"
        ));
        for kind in ["mouseMoved", "mousePressed", "mouseReleased"] {
            let event = json!({"type": kind, "x": place[0], "y": place[1], "button": "left", "clickCount": 1});
            self.call("Input.dispatchMouseEvent", event);
        }
    }

    pub(crate) fn press(&mut self, keys: &[&str]) {
        for key in keys {
            let code = match *key {
                "Tab" => 9,
                "Enter" => 13,
                "Escape" => 27,
                "End" => 35,
                "Home" => 36,
                "ArrowLeft" => 37,
                "ArrowUp" => 38,
                "ArrowRight" => 39,
                "ArrowDown" => 40,
                _ => 0,
            };
            let text = if key.chars().count() == 1 {
                *key
            } else if *key == "Enter" {
                "\r"
            } else {
                ""
            };
            let down = json!({"type": "keyDown", "key": key, "windowsVirtualKeyCode": code, "text": text});
            self.call("Input.dispatchKeyEvent", down);
            self.call("Input.dispatchKeyEvent", json!({"type": "keyUp", "key": key, "windowsVirtualKeyCode": code}));
        }
    }

    /// A screenshot as PNG.
    pub(crate) fn picture(&mut self) -> Vec<u8> {
        // The pointer would be visible.
        self.call("Input.dispatchMouseEvent", json!({"type": "mouseMoved", "x": 1, "y": 1}));
        self.value("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))");
        let answer = self.call("Page.captureScreenshot", json!({"format": "png"}));
        STANDARD.decode(answer["data"].as_str().unwrap_or_default()).expect("base64")
    }

    /// Sends a command and returns its result. Events in between are recorded.
    pub(crate) fn call(&mut self, method: &str, params: Value) -> Value {
        self.next += 1;
        let mut command = json!({"id": self.next, "method": method, "params": params});
        if let Some(session) = &self.session {
            command["sessionId"] = json!(session);
        }
        self.commands.write_all(format!("{command}\0").as_bytes()).expect("Chromium listens");
        loop {
            let mut message = Vec::new();
            self.answers.read_until(0, &mut message).expect("Chromium answers");
            assert_eq!(message.pop(), Some(0), "Chromium has ended while it was asked for {method}");
            let mut message: Value = serde_json::from_slice(&message).expect("JSON");
            if message["id"] == json!(self.next) {
                assert_eq!(message.get("error"), None, "{method}: {message}");
                return message["result"].take();
            }
            self.note(&message);
        }
    }

    fn note(&mut self, event: &Value) {
        let params = &event["params"];
        match event["method"].as_str().unwrap_or_default() {
            "Runtime.exceptionThrown" => self.complaints.push(params["exceptionDetails"].to_string()),
            "Log.entryAdded" if params["entry"]["level"] == "error" => {
                self.complaints.push(params["entry"].to_string())
            }
            "Network.requestWillBeSent" => {
                self.requests.push(params["request"]["url"].as_str().unwrap_or_default().to_owned());
            }
            _ => {}
        }
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.commands.write_all(b"{\"id\":0,\"method\":\"Browser.close\"}\0");
        let began = Instant::now();
        while matches!(self.process.try_wait(), Ok(None)) && began.elapsed() < Duration::from_secs(10) {
            thread::sleep(LOOK);
        }
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
