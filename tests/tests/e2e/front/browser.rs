//! A real browser at the front door: it knows the server by its key, and logs in by name and password.

use std::process::Command;

use tests::run::run;

use super::Front;

const SKIPPED: &str = "a_browser_reads_the_page_and_logs_in";
/// The digest of a server's public key, as browsers write it.
const DIGEST: &str = "openssl x509 -in \"$0\" -noout -pubkey | openssl pkey -pubin -outform der | \
                      openssl dgst -sha256 -binary | base64";

#[test]
fn a_browser_reads_the_page_and_logs_in() {
    let Some(program) = xtask::needs::find("chromium") else {
        let why = "there is no browser; as root: apt-get install chromium";
        return tests::skip(SKIPPED, why);
    };
    let front = Front::begin();
    let mut digest = Command::new("sh");
    digest.args(["-c", DIGEST]).arg(front.door.layout().node_certificate());
    let digest = run(digest).ok().trim().to_owned();
    // The page as the browser has it, and what it logged.
    let seen = |user: &str, path: &str| {
        let mut browser = Command::new(&program);
        browser.args([
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
        ]);
        browser.args(["--no-first-run", "--disable-background-networking", "--dump-dom"]);
        browser.arg(format!("--user-data-dir={}", front.cluster.dir().join("browser").display()));
        browser.arg(format!("--ignore-certificate-errors-spki-list={digest}"));
        browser.arg(format!("https://{user}{}{path}", front.authority()));
        run(browser).ok().to_owned()
    };
    let page = seen("", "/");
    assert!(page.contains("<h1>Gantry front door</h1>"), "{page}");
    assert!(page.contains("<a href=\"/2/info\">/2/info</a>"), "{page}");
    let nodes = seen("alice:secret@", "/2/nodes?bulk=1");
    assert!(nodes.contains(&front.door.name), "{nodes}");
    for user in ["", "alice:wrong@"] {
        let refused = seen(user, "/2/nodes?bulk=1");
        assert!(!refused.contains(&front.door.name), "{user}: {refused}");
    }
    let log = std::fs::read_to_string(front.door.layout().rapi_access_log()).unwrap();
    assert!(log.contains(" - alice [") && log.contains("GET /2/nodes?bulk=1 HTTP/2.0"), "{log}");
}
