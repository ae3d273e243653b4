package jsondoc

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestExplain(t *testing.T) {
	type inner struct {
		Name string    `json:"name"`
		At   time.Time `json:"at"`
	}
	var into struct {
		In    inner             `json:"in"`
		List  []*inner          `json:"list"`
		Map   map[string]string `json:"map"`
		Yes   bool              `json:"yes"`
		N     int8              `json:"n"`
		F     float64           `json:"f"`
		Bytes []byte            `json:"bytes"`
	}
	for in, want := range map[string]string{
		`[]`:                      "want an object, not a list",
		`{"in":{"name":5}}`:       "in.name: want a string, not a number",
		`{"list":{}}`:             "list: want a list, not an object",
		`{"list":[{"name":[]}]}`:  "list.name: want a string, not a list",
		`{"map":{"a":true}}`:      "map: want a string, not true or false",
		`{"map":[]}`:              "map: want an object, not a list",
		`{"yes":"x"}`:             "yes: want true or false, not a string",
		`{"n":1.5}`:               "n: want a whole number, not 1.5",
		`{"n":300}`:               "n: want a whole number, not 300",
		`{"f":"x"}`:               "f: want a number, not a string",
		`{"bytes":{}}`:            "bytes: want a string, not an object",
		`{"in":{"name":"x"}} rub`: "invalid character 'r' after top-level value",
	} {
		if err := Explain(json.Unmarshal([]byte(in), &into)); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %q", in, err, want)
		}
	}
	if Explain(nil) != nil {
		t.Error("no error is explained")
	}
}

// A value may have so many values in it, and so many levels, and no more: each value takes many times
// the memory of its bytes.
func TestDecodeBounded(t *testing.T) {
	list := func(n int) []byte { return []byte("[" + strings.Repeat("0,", n-2) + "0]") }
	if _, err := Decode(list(MaxValues)); err != nil {
		t.Errorf("Decode of %d values: %v", MaxValues, err)
	}
	if _, err := Decode(list(MaxValues + 2)); err == nil || err.Error() != "more than 262144 values" {
		t.Errorf("Decode of %d values: %v", MaxValues+2, err)
	}
	if _, err := Decode([]byte(`"` + strings.Repeat(",", 2*MaxValues) + `"`)); err != nil {
		t.Errorf("Decode of one text: %v", err)
	}
	nested := func(n int) []byte {
		return []byte(strings.Repeat(`["]\"[",[],{"a":`, n/2) + "0" + strings.Repeat("}]", n/2))
	}
	if _, err := Decode(nested(MaxDepth)); err != nil {
		t.Errorf("Decode of %d levels: %v", MaxDepth, err)
	}
	if _, err := Decode(nested(MaxDepth + 2)); err == nil || err.Error() != "nested deeper than 1000 levels" {
		t.Errorf("Decode of %d levels: %v", MaxDepth+2, err)
	}
}

// What a strict reader refuses is written as it is read, and nothing else is changed.
func TestSound(t *testing.T) {
	for in, want := range map[string]string{
		`{"a":1}`:                    `{"a":1}`,
		`"\ud83d"`:                   `"\ufffd"`,
		`"\uDE00x"`:                  `"\ufffdx"`,
		`"\ud83d\ude00\uD83D\uDe00"`: `"\ud83d\ude00\uD83D\uDe00"`,
		`"\ud83d\ud83d\ude00"`:       `"\ufffd\ud83d\ude00"`,
		`"\ud83d\n\ude00"`:           `"\ufffd\n\ufffd"`,
		`"\ud83d\\ude00"`:            `"\ufffd\\ude00"`,
		`"\\ud83d\\\ud83d"`:          `"\\ud83d\\\ufffd"`,
		`"\ud7ff\ue000"`:             `"\ud7ff\ue000"`,
		`{"\udfff":["\ud800"]}`:      `{"\ufffd":["\ufffd"]}`,
		"\"\xff\xe2\x82\"":           `"` + strings.Repeat("\uFFFD", 3) + `"`,
		`"\ud8`:                      `"\ud8`, // no JSON
	} {
		given := []byte(in)
		if got := string(Sound(given)); got != want {
			t.Errorf("Sound(%s) = %s, want %s", in, got, want)
		}
		if string(given) != in {
			t.Errorf("Sound changed %s to %s", in, given)
		}
	}
	if got, err := Encode(map[string]any{"a": json.RawMessage(`{"b":"\ud83d"}`)}); err != nil || string(got) != `{"a":{"b":"\ufffd"}}` {
		t.Errorf("Encode = %s, %v", got, err)
	}
}

// FuzzSound: a sound text has the value that it had, and is sound.
func FuzzSound(f *testing.F) {
	f.Add("\"\\ud83d\\ude00\\ud83d\xff\"")
	f.Fuzz(func(t *testing.T, in string) {
		var was, is any
		if json.Unmarshal([]byte(in), &was) != nil {
			_ = Sound([]byte(in)) // does not panic
			return
		}
		got := Sound([]byte(in))
		if err := json.Unmarshal(got, &is); err != nil || !reflect.DeepEqual(is, was) {
			t.Errorf("Sound(%q) = %q, which is %v, %v, want %v", in, got, is, err, was)
		}
		if again := Sound(got); !bytes.Equal(again, got) {
			t.Errorf("Sound(%q) = %q", got, again)
		}
	})
}

func TestCanonical(t *testing.T) {
	for in, want := range map[string]string{
		`{"b": 1.0, "a": ["\u003c", {"d": null, "c": 12345678901234567890}]}`: `{"a":["<",{"c":12345678901234567890,"d":null}],"b":1}`,
		`[0.50, 1e3, 1000.0, -2.50e-1, 1e+30, 1e400, 10]`:                     `[0.5,1000,1000,-0.25,1e+30,1e400,10]`,
		` {} `:       `{}`,
		`{}{}`:       `{}{}`,
		`{"a": `:     `{"a": `,
		"[\"\xff\"]": "[\"\ufffd\"]",
		``:           ``,
	} {
		if got := string(Canonical([]byte(in))); got != want {
			t.Errorf("Canonical(%s) = %s, want %s", in, got, want)
		}
	}
}

func TestRepeatedKey(t *testing.T) {
	for in, want := range map[string]string{
		`{"a":1,"b":{"a":2},"c":[{"a":3},{"a":4}]}`: "",
		`{"a":"a","b":"b"}`:                         "",
		`["a","a"]`:                                 "",
		`{"a":1,"A":2}`:                             "",
		`{"a":1,"a":2}`:                             "a",
		`{"a":[{"b":{}},{"c":[],"c":1}]}`:           "c",
		`{"a":{"x":1},"b":[],"a":{}}`:               "a",
		`{"a":1,"\u0061":2}`:                        "a",
	} {
		if key, ok := RepeatedKey([]byte(in)); key != want || ok != (want != "") {
			t.Errorf("RepeatedKey(%s) = %q, %t, want %q", in, key, ok, want)
		}
	}
}

func TestStrict(t *testing.T) {
	for _, tt := range []struct{ in, want string }{
		{`{"query":"q","below":{"a":1,"a":2}}`, ""},
		{" {} \n", ""},
		{``, "it ends in the middle"},
		{`{"query":`, "it ends in the middle"},
		{`{"query":"a" x}`, "column 14: invalid character 'x' after object key:value pair"},
		{"{\n \"query\": x}", "line 2, column 11: invalid character 'x' looking for beginning of value"},
		{`{}{}`, "column 3: more than one value"},
		{"{}\n\n  {}", "line 3, column 3: more than one value"},
		{`{"other":1}`, `unknown field "other"`},
		{`{"query":1}`, "query: want a string, not a number"},
		{`[]`, "want an object, not a list"},
		{`{"query":"a","query":"b"}`, "query: is there twice"},
		{`{"query":"a","QUERY":"b"}`, "QUERY: is there twice"},
		{`{"Query":"a"}`, `unknown field "Query"`},
	} {
		var v struct {
			Query string          `json:"query"`
			Below json.RawMessage `json:"below"`
		}
		got := ""
		if err := Strict([]byte(tt.in), &v); err != nil {
			got = err.Error()
		}
		if got != tt.want {
			t.Errorf("Strict(%q) = %q, want %q", tt.in, got, tt.want)
		}
	}
	var text string
	if err := Strict([]byte(`"a"`), &text); err != nil || text != "a" {
		t.Errorf("Strict of a text: %q, %v", text, err)
	}
}

func TestMembers(t *testing.T) {
	const object = `{"b":{ "x" : 1 },"a":[2],"b":null,"<":1e5}`
	ms, err := Members([]byte(object + " rest"))
	if err != nil || len(ms) != 4 || ms[0].Name != "b" || string(ms[0].Value) != `{ "x" : 1 }` || ms[3].Name != "<" {
		t.Errorf("Members = %v, %v", ms, err)
	}
	if got := string(Object(ms)); got != object {
		t.Errorf("Object(Members(%s)) = %s", object, got)
	}
	for _, in := range []string{``, `[]`, `1`, `{`, `{"a"`, `{"a":1`, `{"a":1]`} {
		if ms, err := Members([]byte(in)); err == nil {
			t.Errorf("Members(%q) = %v", in, ms)
		}
	}
}

// FuzzMembers: an object that is taken apart and put together is the same; a key that it has twice
// is found; what Strict accepts is JSON, and nothing of it is lost.
func FuzzMembers(f *testing.F) {
	f.Add(`{"a":1,"b":[{"c":null}],"\u0061":"x"}`)
	f.Add(`{"query":"q","QUERY":"r"} `)
	f.Add(`[{"a":{"a":{}}},{"a":"a","b":"a"}]`)
	f.Fuzz(func(t *testing.T, in string) {
		var v struct {
			Query string          `json:"query"`
			Below json.RawMessage `json:"below"`
		}
		strict := Strict([]byte(in), &v)
		if !json.Valid([]byte(in)) {
			if strict == nil {
				t.Fatalf("Strict accepts %q", in)
			}
			return
		}
		ms, err := Members([]byte(in))
		if err != nil {
			return // no object
		}
		names := map[string]bool{}
		for _, m := range ms {
			names[m.Name] = true
		}
		if _, twice := RepeatedKey([]byte(in)); !twice && len(names) < len(ms) {
			t.Errorf("RepeatedKey(%q) finds none", in)
		}
		if strict == nil && (len(ms) > 2 || len(names) < len(ms)) {
			t.Errorf("Strict accepts %q", in)
		}
		again, err := Members(Object(ms))
		if err != nil || !reflect.DeepEqual(again, ms) {
			t.Errorf("Members(Object(%q)) = %v, %v, want %v", in, again, err, ms)
		}
	})
}
