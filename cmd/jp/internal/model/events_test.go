package model

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"

	"jp/tools/jsondoc"
)

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestEvents(t *testing.T) {
	for _, tt := range []struct{ in, want string }{
		{"event: a\ndata: {}\n\n", "a={} "},
		{"event: a\r\ndata: {}\r\n\r\n", "a={} "},
		{"event: a\rdata: {}\r\r", "a={} "},
		{"data:\n\ndata: x\n\n", "=x "},
		{"data: \r\n\r\ndata:x\r\n\n", "=x "},
		{"data:  \n\n", "=  "},
		{"dat\nda", ""},
		{"data:", ""},
		{"data: x\n", "=x unended "},
		{"data: x\n\ndata: y\nevent: b", "=x b=y unended "},
		{"data: x\n\nevent: b\ndata: y", "=x b=y unended "},
		{": ping\n\n", ""},
		{"\r\r\n\n", ""},
		{"event: a\n\ndata: x\n\n", "=x "},
		{"data: x\ndata:y\n\ndata: z\r\n\r\n", "=x\ny =z "},
		{"id: 1\nretry: 5\nevent:b\ndata: {\"a\": \"b:c\"}\n\n", `b={"a": "b:c"} `},
	} {
		for name, from := range map[string]io.Reader{
			"whole": strings.NewReader(tt.in), "bytes": iotest.OneByteReader(strings.NewReader(tt.in)), "end with data": iotest.DataErrReader(strings.NewReader(tt.in)),
		} {
			c := Config{BaseURL: "http://h/", MaxBytes: 1 << 10, Client: &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
				return &http.Response{StatusCode: 200, Header: http.Header{}, Body: io.NopCloser(from), Request: r}, nil
			})}}
			got := ""
			for e, err := range c.Post(t.Context(), "p", http.Header{}, 1, "") {
				if err != nil {
					t.Fatal(err)
				}
				got += e.Name + "=" + string(e.Data) + " "
				if e.Unended {
					got += "unended "
				}
			}
			if got != tt.want {
				t.Errorf("%s: %q has the events %q, want %q", name, tt.in, got, tt.want)
			}
		}
	}
}

// TestPost: a request is sent as it is, and its connection ends with the iteration.
func TestPost(t *testing.T) {
	var sent *http.Request
	var body string
	closed := false
	c := Config{BaseURL: "http://h/v1/", MaxBytes: 1 << 10, Client: &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
		b, err := io.ReadAll(r.Body)
		sent, body = r, string(b)
		return &http.Response{StatusCode: 200, Header: http.Header{}, Request: r, Body: struct {
			io.Reader
			io.Closer
		}{strings.NewReader("data: 1\n\ndata: 2\n\n"), closer(func() { closed = true })}}, err
	})}}
	for range c.Post(context.Background(), "x/y", http.Header{"X-Api-Key": {"k"}}, 3, map[string]string{"a": "<b>"}) {
		break
	}
	if got := sent.Method + " " + sent.URL.String() + " " + body; got != `POST http://h/v1/x/y {"a":"<b>"}` {
		t.Errorf("sent %s", got)
	}
	want := "map[Accept:[application/json] Content-Type:[application/json] User-Agent:[jp] X-Api-Key:[k] X-Stainless-Retry-Count:[2]]"
	if got := fmt.Sprint(sent.Header); got != want {
		t.Errorf("headers = %s, want %s", got, want)
	}
	if !closed {
		t.Error("the connection is open after the iteration")
	}
}

type closer func()

func (f closer) Close() error { f(); return nil }

// TestEventRead: what servers write in place of the types that they should is read or left out.
func TestEventRead(t *testing.T) {
	type value struct {
		S Str
		N Num
		P *struct{ A Str }
	}
	for data, want := range map[string]string{
		`{"s":"a","n":5,"p":{"a":"b"}}`:      "{a true} {5 true} true",
		`{"s":5,"n":"5","p":{}}`:             "{5 true} {5 true} true",
		`{"s":true,"n":5.7}`:                 "{true true} {5 true} false",
		`{"s":null,"n":null,"p":null}`:       "{ false} {0 false} false",
		`{"s":{"a":1},"n":[1],"p":"x"}`:      "{ false} {0 false} true",
		`{"s":[],"n":"x"}`:                   "{ false} {0 false} false",
		`{"n":-1e99}`:                        "{ false} {0 false} false",
		`{"p":5,"n":7}`:                      "{ false} {7 true} true",
		`{"s":"\ud800\u0000","n":1e3,"x":1}`: "{\ufffd\x00 true} {1000 true} false",
		`null`:                               "{ false} {0 false} false",
	} {
		var v value
		err := Event{Data: []byte(data)}.Read(&v)
		if got := fmt.Sprint(v.S, v.N, v.P != nil); got != want || err != nil {
			t.Errorf("%s = %s, %v, want %s", data, got, err, want)
		}
	}
	for _, data := range []string{"", "x", "[1]", "5", `"x"`, `{"s":`, `{"s":"a"} 1`} {
		if err := (Event{Data: []byte(data)}).Read(new(value)); err == nil {
			t.Errorf("%s is an event", data)
		}
	}
}

// TestReadBounded: no event can take a hundred times its own memory.
func TestReadBounded(t *testing.T) {
	var v struct{ A []struct{ B, C Str } }
	if err := (Event{Data: []byte(`{"A":[` + strings.Repeat("{},", jsondoc.MaxValues) + `{}]}`)}).Read(&v); err == nil || v.A != nil {
		t.Errorf("an event of too many values is read: %d, %v", len(v.A), err)
	}
}
