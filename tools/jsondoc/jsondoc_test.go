package jsondoc

import (
	"encoding/json"
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
