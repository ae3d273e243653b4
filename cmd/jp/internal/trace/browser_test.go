package trace

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"jp/convstore"
)

// browser is a headless Chromium that is spoken to over two pipes: the DevTools protocol, messages
// ended by NUL.
type browser struct {
	t       *testing.T
	to      *os.File
	from    *bufio.Reader
	session string
	last    int
	said    []string // what the console, the log and uncaught exceptions said
	fetched []string // requests
	loaded  int
}

// startBrowser starts the browser that $JP_BROWSER names.
func startBrowser(t *testing.T) *browser {
	t.Helper()
	path := os.Getenv("JP_BROWSER")
	if path == "" {
		t.Skip("$JP_BROWSER names no browser; `make check-extra` installs one and runs this")
	}
	hear, to, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	from, say, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	args := []string{"--headless", "--remote-debugging-pipe", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
		"--disable-component-update", "--disable-sync", "--window-size=1280,900", "--user-data-dir=" + t.TempDir()}
	if os.Getuid() == 0 {
		args = append(args, "--no-sandbox")
	}
	cmd := exec.Command(path, args...)
	cmd.ExtraFiles = []*os.File{hear, say}
	if err := cmd.Start(); err != nil {
		t.Fatalf("the browser: %v", err)
	}
	_, _ = hear.Close(), say.Close()
	b := &browser{t: t, to: to, from: bufio.NewReaderSize(from, 1<<20)}
	t.Cleanup(func() {
		_, _ = fmt.Fprintf(to, `{"id":%d,"method":"Browser.close"}`+"\x00", b.last+1)
		_, _ = to.Close(), cmd.Wait()
		_ = from.Close()
	})
	var target struct{ TargetID string }
	b.call("Target.createTarget", map[string]any{"url": "about:blank"}, &target)
	var attached struct{ SessionID string }
	b.call("Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &attached)
	b.session = attached.SessionID
	for _, domain := range []string{"Page", "Runtime", "Log", "Network"} {
		b.call(domain+".enable", nil, nil)
	}
	return b
}

// call sends a command and reads until its answer, taking notes of the events before it.
func (b *browser) call(method string, params map[string]any, result any) {
	b.t.Helper()
	b.last++
	msg, err := json.Marshal(map[string]any{"id": b.last, "method": method, "params": params, "sessionId": b.session})
	if b.session == "" {
		msg, err = json.Marshal(map[string]any{"id": b.last, "method": method, "params": params})
	}
	if err != nil {
		b.t.Fatal(err)
	}
	if _, err := b.to.Write(append(msg, 0)); err != nil {
		b.t.Fatalf("%s: %v", method, err)
	}
	for {
		m := b.read()
		if m.ID != b.last {
			continue
		}
		if m.Error != nil {
			b.t.Fatalf("%s: %s", method, m.Error)
		}
		if result != nil {
			if err := json.Unmarshal(m.Result, result); err != nil {
				b.t.Fatalf("%s: %v", method, err)
			}
		}
		return
	}
}

type message struct {
	ID            int
	Method        string
	Error, Result json.RawMessage
	Params        struct {
		Request struct{ URL string }
		Entry   struct{ Level, Text string }
	}
}

func (b *browser) read() message {
	b.t.Helper()
	text, err := b.from.ReadBytes(0)
	if err != nil {
		b.t.Fatalf("the browser ended: %v", err)
	}
	var m message
	if err := json.Unmarshal(text[:len(text)-1], &m); err != nil {
		b.t.Fatalf("the browser: %v in %s", err, text)
	}
	switch m.Method {
	case "Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded":
		b.said = append(b.said, string(text[:len(text)-1]))
	case "Network.requestWillBeSent":
		b.fetched = append(b.fetched, m.Params.Request.URL)
	case "Page.loadEventFired":
		b.loaded++
	}
	return m
}

// open loads a page of a trace and returns its address.
func (b *browser) open(tr *Trace) string {
	b.t.Helper()
	path := filepath.Join(b.t.TempDir(), "trace.html")
	var page bytes.Buffer
	if err := tr.HTML(&page); err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(path, page.Bytes(), 0o600); err != nil {
		b.t.Fatal(err)
	}
	before := b.loaded
	b.call("Page.navigate", map[string]any{"url": "file://" + path}, nil)
	for b.loaded == before {
		b.read()
	}
	return "file://" + path
}

// eval evaluates a JavaScript expression to a T.
func eval[T any](b *browser, expression string) T {
	b.t.Helper()
	var r struct {
		Result           struct{ Value json.RawMessage }
		ExceptionDetails json.RawMessage
	}
	b.call("Runtime.evaluate", map[string]any{"expression": expression, "returnByValue": true}, &r)
	if r.ExceptionDetails != nil {
		b.t.Fatalf("%s: %s", expression, r.ExceptionDetails)
	}
	var v T
	if err := json.Unmarshal(r.Result.Value, &v); err != nil {
		b.t.Fatalf("%s: %v", expression, err)
	}
	return v
}

func check[T comparable](b *browser, expression string, want T) {
	b.t.Helper()
	if got := eval[T](b, expression); got != want {
		b.t.Errorf("%s = %v, want %v", expression, got, want)
	}
}

// press presses a key as a person does.
func (b *browser) press(key string) {
	b.t.Helper()
	for _, kind := range []string{"rawKeyDown", "keyUp"} {
		b.call("Input.dispatchKeyEvent", map[string]any{"type": kind, "key": key, "code": key}, nil)
	}
}

// click clicks in the middle of the first element that a selector finds.
func (b *browser) click(selector string) {
	b.t.Helper()
	at := eval[[2]float64](b, `(() => { const r = document.querySelector(`+quote(selector)+`).getBoundingClientRect(); return [r.x + Math.min(r.width / 2, 300), r.y + r.height / 2] })()`)
	for _, kind := range []string{"mousePressed", "mouseReleased"} {
		b.call("Input.dispatchMouseEvent", map[string]any{"type": kind, "x": at[0], "y": at[1], "button": "left", "clickCount": 1}, nil)
	}
}

func quote(s string) string {
	b, _ := json.Marshal(s) // a string always encodes
	return string(b)
}

// shot writes what the page looks like into the folder $JP_BROWSER_SHOTS, for people.
func (b *browser) shot(name string) {
	b.t.Helper()
	dir := os.Getenv("JP_BROWSER_SHOTS")
	if dir == "" {
		return
	}
	var r struct{ Data string }
	b.call("Page.captureScreenshot", nil, &r)
	png, err := base64.StdEncoding.DecodeString(r.Data)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, name+".png"), png, 0o644)
	}
	if err != nil {
		b.t.Fatal(err)
	}
}

// shown is what a page shows of hostile: all of it as text, without what would act.
const shown = "</script><script>document.title='owned'</script><img src=http://evil.example/x onerror=alert(1)>[31m -->"

const (
	rowCount  = `document.querySelectorAll("#rows .row[data-id]").length`
	selection = `document.querySelector("#rows .row[aria-selected=true]").dataset.id`
	focus     = `document.activeElement.dataset.id || document.activeElement.tagName`
	panel     = `!document.getElementById("details").hidden`
)

// TestBrowser looks at the page as a person does, in a real browser.
func TestBrowser(t *testing.T) {
	b := startBrowser(t)
	tr := build(t, newTree(hostile))
	address := b.open(tr)

	// Every span is a row, and what it says is text.
	check(b, rowCount, len(tr.Spans))
	check(b, `document.title`, "jp-c101 Find "+shown)
	check(b, `document.querySelector("#title").firstChild.textContent`, "Find "+shown)
	check(b, `document.querySelectorAll("img, iframe, link, object, embed").length`, 0)
	check(b, `document.querySelectorAll("script").length`, 2)
	check(b, `[...document.querySelectorAll("#rows .row .bar")].every((x) => x.getBoundingClientRect().width >= 2)`, true)
	check(b, `document.querySelector("[data-id='jp-d2']").className`, "row delegation bad")
	b.shot("light")

	// A click opens the details, Escape leaves them for the row.
	check(b, panel, false)
	b.click(`[data-id="jp-d1"] .name b`)
	check(b, panel, true)
	check(b, `document.querySelector("#details h2").textContent`, "agent/r")
	check(b, `document.querySelector("#details pre").textContent`, "one "+shown)
	check(b, `[...document.querySelectorAll("#details dt")].map((x) => x.textContent + "=" + x.nextSibling.textContent).join("; ")`, strings.Join([]string{
		"kind=delegation", "state=ok", "conversation=jp-c102", "turn=1", "started=2026-03-04T05:06:08.1Z", "ended=2026-03-04T05:06:10.9Z", "time=2.80s",
		"tokens=500 in, 50 out", "cost=unknown", "title=part one", "profile=agent/r sha256:abababababab", "model=p/small", "tool=jp_query", "call=c1", "caller=jp-c101",
		"run=sub_complete, depth 1", "tools=1 of 2 allowed, 1 denied", "grant=8,000 tokens, unlimited cost"}, "; "))
	b.shot("details")
	b.press("Escape")
	check(b, panel, false)
	check(b, focus, "jp-d1")

	// The keyboard alone does all of it.
	b.press("ArrowRight") // it is open: to its first
	check(b, selection, "jp-c102/4")
	b.press("ArrowLeft")
	check(b, selection, "jp-d1")
	b.press("ArrowLeft")
	check(b, rowCount, len(tr.Spans)-3)
	check(b, `document.querySelector("[data-id='jp-d1']").getAttribute("aria-expanded")`, "false")
	check(b, focus, "jp-d1")
	b.press("ArrowDown")
	check(b, focus, "jp-d2")
	b.press("Enter")
	check(b, `document.querySelector("#details dd:nth-of-type(2)").textContent`, "timeout: the deadline passed")
	b.press("End")
	check(b, `document.querySelector("#details h2").textContent`, "turn 2")
	b.click("#close")
	check(b, panel, false)
	b.press("Home")
	check(b, selection, "jp-c101/1")

	// Kinds can be left out, everything opened and closed.
	b.click("#collapse")
	check(b, rowCount, 2)
	b.click("#expand")
	check(b, rowCount, len(tr.Spans))
	b.click("#show-model")
	check(b, rowCount, len(tr.Spans)-tr.ModelCalls)
	b.click("#show-tool")
	check(b, rowCount, len(tr.Spans)-tr.ModelCalls-tr.ToolCalls)
	b.click("#show-model")
	b.click("#show-tool")

	// Dark, and narrow, nothing sticks out.
	const color = `getComputedStyle(document.body).backgroundColor`
	light := eval[string](b, color)
	b.call("Emulation.setEmulatedMedia", map[string]any{"features": []map[string]string{{"name": "prefers-color-scheme", "value": "dark"}}}, nil)
	if dark := eval[string](b, color); dark == light {
		t.Errorf("dark is as light: %s", dark)
	}
	b.click(`[data-id="jp-d2"] .name b`)
	b.shot("dark")
	b.call("Emulation.setDeviceMetricsOverride", map[string]any{"width": 400, "height": 700, "deviceScaleFactor": 1, "mobile": false}, nil)
	check(b, `document.documentElement.scrollWidth <= 400`, true)
	b.shot("narrow")

	// Nothing was loaded but the page, nothing complained, and nothing that the models said has
	// run.
	check(b, `document.title`, "jp-c101 Find "+shown)
	for _, url := range b.fetched {
		if url != address {
			t.Errorf("the page asked for %s", url)
		}
	}
	for _, said := range b.said {
		t.Errorf("the console said: %s", said)
	}
}

// TestBrowserLarge opens a trace of thousands of spans: those below the first level are closed.
func TestBrowserLarge(t *testing.T) {
	b := startBrowser(t)
	tr := newTree("x")
	one := tr.Delegations[1]
	for i := range 1000 {
		d := one
		d.ID, d.Child, d.Call, d.Turn = fmt.Sprintf("jp-d%d", i+10), goneID+1, fmt.Sprint("more", i), 1
		tr.Delegations = append(tr.Delegations, d)
	}
	for i := range 1000 { // in the second turn
		tr.Delegations[i+3].Turn = 2
		last := len(tr.events[rootID]) - 1
		tr.events[rootID] = append(tr.events[rootID], tr.events[rootID][last])
		tr.events[rootID][last] = convstore.Event{ID: fmt.Sprint("more", i), Seq: uint64(1000 + i), Turn: 2, Time: at(7000 + i/2),
			Body: convstore.ToolCall{ID: fmt.Sprint("more", i), Name: "jp_query", Arguments: []byte("{}")}}
	}
	big := build(t, tr)
	b.open(big)
	check(b, rowCount, len(big.Spans)-3)
	b.click("#expand")
	check(b, rowCount, len(big.Spans))
	b.click("#rows .row[data-id]")
	b.press("End")
	check(b, selection, big.Spans[len(big.Spans)-1].ID)
	b.shot("large")
	for _, said := range b.said {
		t.Errorf("the console said: %s", said)
	}
}
