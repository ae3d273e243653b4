package attach

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"jp/convstore"
)

// said is a list of attachments as source|type|text lines.
func said(list []convstore.Attachment) string {
	var b strings.Builder
	for _, a := range list {
		if a.Data != nil {
			a.Text = fmt.Sprintf("%d bytes", len(a.Data))
		}
		fmt.Fprintf(&b, "%s|%s|%s\n", a.Source, a.MediaType, a.Text)
	}
	return b.String()
}

func TestPath(t *testing.T) {
	dir := t.TempDir()
	for path, text := range map[string]string{
		"a.txt": "text a", "empty": "", "bin": "\x89PNG\x00", "latin": "caf\xe9", "pic.png": "\x89PNG\r\n\x1a\n", "large.gif": "GIF89a" + strings.Repeat("\x00", MaxImage), "big": strings.Repeat("x", MaxOne+1), "full": strings.Repeat("x", MaxOne),
		"d/.gitignore": "*.log\n", "d/b.go": "b", "d/x.log": "no", "d/e/c.go": "c", "d/pic": "\x00", "d/pic2": "\xff",
		"only/pic": "\x00", "large/a": "a", "large/b": strings.Repeat("y", MaxOne+1),
	} {
		path = filepath.Join(dir, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mkfifo(filepath.Join(dir, "fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ path, want, err, note string }{
		{path: "a.txt", want: "a.txt|text/plain|text a\n"},
		{path: dir + "/a.txt", want: dir + "/a.txt|text/plain|text a\n"},
		{path: "empty", want: "empty|text/plain|\n"},
		{path: "full", want: "full|text/plain|" + strings.Repeat("x", MaxOne) + "\n"},
		{path: "d", want: "d/.gitignore|text/plain|*.log\n\nd/b.go|text/plain|b\nd/e/c.go|text/plain|c\n",
			note: "d/pic and 1 more below d: left out: not texts"},
		{path: "./d/e", want: "d/e/c.go|text/plain|c\n"},
		{path: "", err: "the path is empty"},
		{path: "none", err: "none: no such file or directory"},
		{path: "bin", err: "bin: is neither UTF-8 text nor an image (PNG, JPEG, GIF, WebP)"},
		{path: "pic.png", want: "pic.png|image/png|8 bytes\n"},
		{path: "large.gif", err: "large.gif: is an image larger than 3584 KiB"},
		{path: "latin", err: "latin: is neither UTF-8 text nor an image (PNG, JPEG, GIF, WebP)"},
		{path: "big", err: "big: is larger than 1024 KiB"},
		{path: "large", err: "large/b: is larger than 1024 KiB"},
		{path: "only", err: "only: holds no file of text"},
		{path: "fifo", err: "fifo: is not a regular file"},
		{path: "a.txt/x", err: "a.txt/x: not a directory"},
	} {
		note := ""
		r := &Reader{Dir: dir, Workspace: dir, Notice: func(s string) { note = s }}
		list, err := r.Path(t.Context(), tt.path)
		if tt.err != "" {
			if err == nil || err.Error() != tt.err {
				t.Errorf("Path(%q) = %v, want %s", tt.path, err, tt.err)
			}
			continue
		}
		if got := said(list); err != nil || got != tt.want || note != tt.note {
			t.Errorf("Path(%q) = %q, %v, note %q, want %q, note %q", tt.path, got, err, note, tt.want, tt.note)
		}
	}

	r := &Reader{Dir: dir}
	for i := range MaxAll / MaxOne {
		if _, err := r.File("full"); err != nil {
			t.Fatalf("file %d: %v", i+1, err)
		}
	}
	if _, err := r.File("a.txt"); err == nil || err.Error() != "a.txt: with it the attachments are larger than 4 MiB" {
		t.Errorf("after %d bytes: %v", MaxAll, err)
	}
	if err := os.Mkdir(filepath.Join(dir, "many"), 0o755); err != nil {
		t.Fatal(err)
	}
	for i := range MaxFiles + 1 {
		if err := os.WriteFile(filepath.Join(dir, "many", fmt.Sprint(i)), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := (&Reader{Dir: dir}).Path(t.Context(), "many"); err == nil || err.Error() != "many: holds more than 500 files; name a folder within" {
		t.Errorf("Path(many) = %v", err)
	}
}

func TestURL(t *testing.T) {
	mux := http.NewServeMux()
	page := func(path, kind, text string) {
		mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", kind)
			fmt.Fprint(w, text)
		})
	}
	page("/text", "text/markdown; charset=utf-8", "# é\n")
	page("/latin", "text/html; charset=ISO-8859-1", "caf\xe9")
	page("/ascii", "text/html; charset=ISO-8859-1", "cafe")
	page("/png", "image/png", "\x89PNG\r\n\x1a\n")
	page("/bin", "image/png", "\x89PNG\x00")
	page("/big", "text/plain", strings.Repeat("x", MaxOne+1))
	for path, to := range map[string]string{
		"/here": "/text", "/round": "/round", "/file": "file:///etc/passwd", "/other": "https://127.0.0.1:1/", "/named": "https://localhost:1/",
		"/private": "https://192.168.1.1/", "/metadata": "http://169.254.169.254/latest", "/mapped": "https://[::ffff:10.0.0.1]/", "/user": "https://a:b@example.com/",
	} {
		mux.Handle(path, http.RedirectHandler(to, http.StatusFound))
	}
	s := httptest.NewServer(mux)
	defer s.Close()
	base := s.URL
	for _, tt := range []struct{ ref, want, err string }{
		{ref: base + "/text", want: base + "/text|text/markdown|# é\n"},
		{ref: base + "/here", want: base + "/here|text/markdown|# é\n"},
		{ref: base + "/ascii", want: base + "/ascii|text/html|cafe"},
		{ref: base + "/latin", err: base + "/latin: is in iso-8859-1, and only UTF-8 is read"},
		{ref: base + "/png", want: base + "/png|image/png|8 bytes"},
		{ref: base + "/bin", err: base + "/bin: is neither UTF-8 text nor an image (PNG, JPEG, GIF, WebP)"},
		{ref: base + "/big", err: base + "/big: is larger than 1024 KiB"},
		{ref: base + "/none", err: base + "/none: answered 404 Not Found"},
		{ref: base + "/round", err: base + "/round: leads elsewhere more than 5 times"},
		{ref: base + "/file", err: base + "/file: leads to an address that is not plain https, which is not followed"},
		{ref: base + "/user", err: base + "/user: leads to an address that is not plain https, which is not followed"},
		{ref: base + "/metadata", err: base + "/metadata: leads to an address that is not plain https, which is not followed"},
		{ref: base + "/other", err: base + "/other: " + errPrivate.Error()},
		{ref: base + "/named", err: base + "/named: " + errPrivate.Error()},
		{ref: base + "/private", err: base + "/private: " + errPrivate.Error()},
		{ref: base + "/mapped", err: base + "/mapped: " + errPrivate.Error()},
		{ref: "http://example.com/", err: "http://example.com/: http is read from this machine only; use https"},
		{ref: "file:///etc/passwd", err: "file:///etc/passwd: only https is read"},
		{ref: "https://user:secret@example.com/", err: "the address has a user or a password, which would be stored"},
		{ref: "https:///x", err: "https:///x: names no host"},
		// Values of a query may be secrets.
		{ref: base + "/text?token=SECRET", want: base + "/text?token=...|text/markdown|# é\n"},
		{ref: base + "/none?token=SECRET", err: base + "/none?token=...: answered 404 Not Found"},
		{ref: base + "/latin?SECRET", err: base + "/latin?...: is in iso-8859-1, and only UTF-8 is read"},
		{ref: base + "/private?token=SECRET", err: base + "/private?token=...: " + errPrivate.Error()},
		{ref: "http://127.0.0.1:1/?token=SECRET", err: "http://127.0.0.1:1/?token=...: dial tcp 127.0.0.1:1: connect: connection refused"},
		{ref: "http://example.com/?token=SECRET", err: "http://example.com/?token=...: http is read from this machine only; use https"},
		{ref: "https:///?token=SECRET", err: "https:///?token=...: names no host"},
		{ref: "ftp://h/?token=SECRET", err: "ftp://h/?token=...: only https is read"},
		{ref: "https://[h/?token=SECRET", err: `"https://[h/?token=...": is no address`},
	} {
		a, err := (&Reader{}).URL(t.Context(), tt.ref)
		if tt.err != "" {
			if err == nil || err.Error() != tt.err {
				t.Errorf("URL(%q) = %v, want %s", tt.ref, err, tt.err)
			}
			continue
		}
		if got := strings.TrimSuffix(said([]convstore.Attachment{a}), "\n"); err != nil || got != tt.want {
			t.Errorf("URL(%q) = %q, %v, want %q", tt.ref, got, err, tt.want)
		}
	}
}

// TestURLProtocol: HTTP/2 is not spoken, in which a server can hold up what reads and closes a page.
func TestURLProtocol(t *testing.T) {
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.Proto) }))
	s.EnableHTTP2 = true
	s.StartTLS()
	defer s.Close()
	at, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	client, roots := newClient(at), x509.NewCertPool()
	roots.AddCert(s.Certificate())
	client.Transport.(*http.Transport).TLSClientConfig = &tls.Config{RootCAs: roots}
	resp, err := client.Get(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if got, err := io.ReadAll(resp.Body); string(got) != "HTTP/1.1" || err != nil {
		t.Errorf("the page was read over %s, %v, want HTTP/1.1", got, err)
	}
}

func TestIsPublic(t *testing.T) {
	for ip, want := range map[string]bool{
		"93.184.216.34": true, "2606:2800:220:1::1": true,
		"127.0.0.1": false, "10.1.2.3": false, "172.16.0.1": false, "192.168.0.1": false, "169.254.169.254": false, "0.0.0.0": false, "100.64.0.1": false,
		"255.255.255.255": false, "224.0.0.1": false, "::1": false, "::": false, "fe80::1%eth0": false, "fd00::1": false, "::ffff:127.0.0.1": false,
		"64:ff9b::7f00:1": false, "2002:7f00:1::": false,
	} {
		if got := isPublic(netip.MustParseAddr(ip)); got != want {
			t.Errorf("isPublic(%s) = %v, want %v", ip, got, want)
		}
	}
}

func TestIsURL(t *testing.T) {
	for ref, want := range map[string]bool{
		"https://a/b": true, "HTTP://a": true, "file:///x": true, "git+ssh://x": true,
		"a/b": false, "://x": false, "a b://c": false, "C:/x": false, "/x": false, "jp:jp-c1": false,
	} {
		if got := IsURL(ref); got != want {
			t.Errorf("IsURL(%q) = %v, want %v", ref, got, want)
		}
	}
}

// TestLinkMeanwhile: a file of the workspace that becomes a link while it is looked up leads
// nowhere else.
func TestLinkMeanwhile(t *testing.T) {
	dir, secret := t.TempDir(), filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	name, beside := filepath.Join(dir, "s.json"), filepath.Join(dir, "beside")
	turn := func() error {
		err := os.WriteFile(beside, []byte("own"), 0o600)
		if err == nil {
			err = os.Rename(beside, name)
		}
		if err == nil {
			err = os.Symlink(secret, beside)
		}
		if err == nil {
			err = os.Rename(beside, name)
		}
		return err
	}
	if err := turn(); err != nil {
		t.Fatal(err)
	}
	stop, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		for {
			select {
			case <-stop:
				ended <- nil
				return
			default:
			}
			if err := turn(); err != nil {
				ended <- err
				return
			}
		}
	}()
	r := &Reader{Dir: dir, Workspace: dir}
	for range 3000 {
		if b, _ := r.Schema(t.Context(), "s.json"); string(b) == "secret" {
			t.Error("a schema was read through a link that leads out of the workspace")
			break
		}
		if a, _ := r.File("s.json"); a.Text == "secret" {
			t.Error("a file was read through a link that leads out of the workspace")
			break
		}
	}
	close(stop)
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
}
