package schema

import (
	"errors"
	"regexp"
	"strings"
	"sync"

	"jp/tools/brief"
	"jp/tools/jsondoc"
)

// schemaWords removes Go from the validator's errors, and its names for schemas without a name.
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

// maxError bounds an error of the validator in bytes, which may hold a whole value several times.
const maxError = 2000

// explainSchema is [jsondoc.Explain] for the validator's errors, too.
func explainSchema(err error) error {
	if err == nil {
		return nil
	}
	text := jsondoc.Explain(err).Error()
	if len(text) > maxError { // where it is comes before a value, and what is wrong behind it
		text = brief.Prefix(text, maxError/2) + "..." + strings.ToValidUTF8(text[len(text)-maxError/2:], "")
	}
	return errors.New(schemaWords()(strings.ReplaceAll(text, "schemaWithoutMethods.", "")))
}
