package tools

import (
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"strings"
	"sync"
)

// ExplainJSON says what a JSON decoder did not like in words of JSON, where the
// standard ones name Go types: "servers.a: want a list, not a string". Errors of
// other kinds come back as they are.
func ExplainJSON(err error) error {
	var typed *json.UnmarshalTypeError
	if !errors.As(err, &typed) {
		return err
	}
	text := fmt.Sprintf("want %s, not %s", jsonKind(typed.Type), foundKind(typed.Value))
	if typed.Field != "" {
		text = typed.Field + ": " + text
	}
	return errors.New(text)
}

// jsonKind is the JSON that a Go type is decoded from.
func jsonKind(t reflect.Type) string {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]()) {
		return "a string"
	}
	switch t.Kind() {
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Float32, reflect.Float64:
		return "a number"
	case reflect.Struct, reflect.Map:
		return "an object"
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return "a string"
		}
		return "a list"
	}
	return "a whole number"
}

// foundKind is what UnmarshalTypeError.Value calls what stands there.
func foundKind(value string) string {
	switch value {
	case "array":
		return "a list"
	case "object":
		return "an object"
	case "bool":
		return "true or false"
	}
	if number, ok := strings.CutPrefix(value, "number "); ok {
		return number
	}
	return "a " + value
}

// schemaWords takes Go, and the names that the validator has for what has none,
// out of its errors.
var schemaWords = sync.OnceValue(func() func(string) string {
	var from []*regexp.Regexp
	var to []string
	for _, pair := range [][2]string{
		{`^(jsonschema\.Schema|jsonschema): `, ""},
		{`^<anonymous schema>: `, ""},
		{`^validating root: `, ""},
		{`\[(<anonymous schema> ?)+\]`, "its schemas"},
		{`both <anonymous schema> and <anonymous schema>`, "more than one of its schemas"},
		{`<anonymous schema>`, "its schema"},
		{`type: (?s:.*?) has type "(\w+)", want (one of )?`, "is of type $1, want "},
		{`^(cannot be unmarshaled into an int|not an integer value|integer is out of range|not a number)$`, "a length or count in it is no whole number"},
	} {
		from, to = append(from, regexp.MustCompile(pair[0])), append(to, pair[1])
	}
	return func(text string) string {
		for i, re := range from {
			text = re.ReplaceAllString(text, to[i])
		}
		return text
	}
})

// explainSchema is ExplainJSON for the validator's errors, too.
func explainSchema(err error) error {
	if err == nil {
		return nil
	}
	return errors.New(schemaWords()(strings.ReplaceAll(ExplainJSON(err).Error(), "schemaWithoutMethods.", "")))
}
