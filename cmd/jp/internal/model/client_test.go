package model_test

import (
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"jp/cmd/jp/internal/model"
)

// answer serves one handler and returns what a model there yields.
func answer(t *testing.T, id string, h http.HandlerFunc) reply {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	return collect(t, open(t, id, server.URL), t.Context(), ask("x"))
}

// TestRedirects: a key does not leave its endpoint, whatever the redirect.
func TestRedirects(t *testing.T) {
	var visits atomic.Int32
	elsewhere := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { visits.Add(1) }))
	defer elsewhere.Close()
	for _, status := range []int{301, 302, 303, 307, 308} {
		formats(t, func(t *testing.T, id string) {
			got := answer(t, id, func(w http.ResponseWriter, r *http.Request) {
				http.Redirect(w, r, elsewhere.URL+"/stolen?with=query", status)
			})
			e := got.want(t, model.KindBadRequest)
			if want := "redirected to " + elsewhere.URL + "/stolen: refused, since a key would go along"; e.Message != want || e.Temporary() {
				t.Errorf("%d: message = %q, want %q", status, e.Message, want)
			}
		})
	}
	if n := visits.Load(); n != 0 {
		t.Errorf("%d requests went elsewhere", n)
	}
}

// TestRedirectAtHome: 307 and 308 on the same server keep the request whole and are followed.
func TestRedirectAtHome(t *testing.T) {
	formats(t, func(t *testing.T, id string) {
		body := ""
		got := answer(t, id, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/home" {
				http.Redirect(w, r, "/home", http.StatusPermanentRedirect)
				return
			}
			b, _ := io.ReadAll(r.Body)
			body = string(b)
			w.WriteHeader(http.StatusTeapot)
		})
		_ = got.want(t, model.KindBadRequest)
		if !strings.Contains(body, `"model":"wire"`) {
			t.Errorf("the body after the redirect = %q", body)
		}
		for status, why := range map[int]string{
			http.StatusFound:             "the request would not be sent there, only its address opened",
			http.StatusTemporaryRedirect: "it is the redirect number 5",
		} {
			got = answer(t, id, func(w http.ResponseWriter, r *http.Request) {
				if r.Method != http.MethodPost {
					t.Errorf("%d: the request became a %s", status, r.Method)
				}
				http.Redirect(w, r, r.URL.Path, status)
			})
			if e := got.want(t, model.KindBadRequest); !strings.HasPrefix(e.Message, "redirected to") || !strings.HasSuffix(e.Message, ": refused, since "+why) {
				t.Errorf("%d: error = %v", status, e)
			}
		}
	})
}

// TestErrorBodies: an error is as long as an error should be, however long its body.
func TestErrorBodies(t *testing.T) {
	for name, h := range map[string]http.HandlerFunc{
		"endless": func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(http.StatusBadRequest)
			for r.Context().Err() == nil {
				if _, err := io.WriteString(w, strings.Repeat("x", 1<<16)); err != nil {
					return
				}
			}
		},
		"broken": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Length", "1000")
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, "no")
		},
		"escape": func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, `{"error":{"message":"\u001b[2Jno\r\n\u202eno"}}`)
		},
	} {
		formats(t, func(t *testing.T, id string) {
			e := answer(t, id, h).want(t, model.KindBadRequest)
			if len(e.Message) > 700 || e.Message == "" || strings.ContainsAny(e.Message, "\x1b\r\n\u202e") {
				t.Errorf("%s: message = %q", name, e.Message)
			}
		})
	}
}

// TestNotAStream: what is answered instead of an event stream is told.
func TestNotAStream(t *testing.T) {
	for _, tt := range []struct {
		kind, body, want string
	}{
		{"application/json", `{"error":{"message":"overloaded","code":503}}`, "overloaded (503): overloaded"},
		{"application/json; charset=utf-8", `{"id":"x","choices":[{"message":{"content":"hi"}}]}`, "stream (200): answered with application/json, not with an event stream"},
		// it is one
		{"application/json", "data: {\"choices\":[]}\n\n", "stream: the reply broke off"},
		{"text/html", "data: {\"choices\":[]}\n\n", "stream: the reply broke off"},
		{"text/html", `<html>`, "stream (200): answered with text/html, not with an event stream"},
		{"text/plain", "hello", "stream: the reply broke off"},
		{"text/event-stream", "", "stream: the reply broke off"},
	} {
		formats(t, func(t *testing.T, id string) {
			got := answer(t, id, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", tt.kind)
				_, _ = io.WriteString(w, tt.body)
			})
			if want := strings.TrimSuffix(id, "/wire") + ": " + tt.want; fmt.Sprint(got.err) != want {
				t.Errorf("error = %v, want %s", got.err, want)
			}
		})
	}
}

// TestOddStatus: a status that is neither success nor error is no reply either.
func TestOddStatus(t *testing.T) {
	formats(t, func(t *testing.T, id string) {
		got := answer(t, id, func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusNotModified) })
		if e := got.want(t, model.KindBadRequest); e.Status != http.StatusNotModified {
			t.Errorf("error = %v", e)
		}
	})
}

// TestNoServer: a server that is not there is told at once.
func TestNoServer(t *testing.T) {
	server := httptest.NewServer(nil)
	url := server.URL
	server.Close()
	formats(t, func(t *testing.T, id string) {
		e := collect(t, open(t, id, url), t.Context(), ask("x")).want(t, model.KindNetwork)
		if e.Temporary() || !strings.Contains(e.Message, "connection refused") || !strings.HasPrefix(e.Hint, "is the server at "+url) {
			t.Errorf("error = %v, hint %q, temporary %t", e, e.Hint, e.Temporary())
		}
	})
}

// TestCertificates: an https server with a certificate that nobody signed.
func TestCertificates(t *testing.T) {
	server := httptest.NewUnstartedServer(nil)
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	defer server.Close()
	formats(t, func(t *testing.T, id string) {
		e := collect(t, open(t, id, server.URL), t.Context(), ask("x")).want(t, model.KindNetwork)
		if e.Temporary() || !strings.Contains(e.Message, "certificate") {
			t.Errorf("error = %v, temporary %t", e, e.Temporary())
		}
	})
	plain := httptest.NewServer(nil)
	defer plain.Close()
	formats(t, func(t *testing.T, id string) {
		e := collect(t, open(t, id, strings.Replace(plain.URL, "http:", "https:", 1)), t.Context(), ask("x")).want(t, model.KindNetwork)
		if e.Temporary() {
			t.Errorf("error = %v is worth repeating", e)
		}
	})
}

// TestUnknownHost needs no network: the name is reserved for names that do not exist. Where a
// resolver is missing or lies about it, the error is still one of the network.
func TestUnknownHost(t *testing.T) {
	t.Setenv("HTTP_PROXY", "")
	formats(t, func(t *testing.T, id string) {
		_ = collect(t, open(t, id, "http://no-such-host.invalid"), t.Context(), ask("x")).want(t, model.KindNetwork)
	})
}
