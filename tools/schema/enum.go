package schema

import (
	"encoding/json"
	"errors"
)

// WithEnum returns the schema of an object with the enum of the property at path.
func WithEnum(schema json.RawMessage, path []string, values []string) (json.RawMessage, error) {
	var object, prop, props map[string]json.RawMessage
	if err := errors.Join(json.Unmarshal(schema, &object), json.Unmarshal(orNull(object["properties"]), &props)); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(orNull(props[path[0]]), &prop); err != nil || prop == nil {
		return nil, errors.Join(err, errors.New("there is none"))
	}
	var err error
	if len(path) == 1 {
		prop["enum"], err = json.Marshal(values)
	} else {
		prop["items"], err = WithEnum(orNull(prop["items"]), path[1:], values)
	}
	if err != nil {
		return nil, err
	}
	if props[path[0]], err = json.Marshal(prop); err != nil {
		return nil, err
	}
	if object["properties"], err = json.Marshal(props); err != nil {
		return nil, err
	}
	return json.Marshal(object)
}

func orNull(raw json.RawMessage) json.RawMessage {
	if raw == nil {
		return json.RawMessage("null")
	}
	return raw
}
