package ingest

import (
	"bytes"
	"errors"
	"io/fs"
	"path"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"golang.org/x/text/language"
	"golang.org/x/text/message"

	"github.com/offerlog/offerlog/pkg/offer"
	"github.com/offerlog/offerlog/schemas"
)

// contracts are the schemas of events' data, by type. None is ever loaded by its URL.
var contracts = sync.OnceValue(func() map[string]*jsonschema.Schema {
	c := jsonschema.NewCompiler()
	c.UseLoader(jsonschema.SchemeURLLoader{})
	own, err := fs.Glob(schemas.Events, "events/*.json")
	var shared []string
	if err == nil {
		shared, err = fs.Glob(schemas.Events, "*.json")
	}
	if err != nil {
		panic("ingest: the embedded schemas: " + err.Error())
	}
	ids := map[string]string{}
	for _, name := range append(own, shared...) {
		b, err := schemas.Events.ReadFile(name)
		var doc any
		if err == nil {
			doc, err = jsonschema.UnmarshalJSON(bytes.NewReader(b))
		}
		id := "https://offerlog.dev/schemas/" + name
		if err == nil {
			err = c.AddResource(id, doc)
		}
		if err != nil {
			panic("ingest: the embedded schema " + name + ": " + err.Error())
		}
		if path.Dir(name) == "events" {
			ids[strings.TrimSuffix(path.Base(name), ".json")] = id
		}
	}
	compiled := map[string]*jsonschema.Schema{}
	for kind, id := range ids {
		compiled[kind] = c.MustCompile(id)
	}
	return compiled
})

// Conforms holds the data of an event of a type against the schema of that type; what is wrong is a fault with the JSON Pointer of
// the place. A type without a schema is one.
func Conforms(kind string, data []byte) *offer.Fault {
	contract := contracts()[kind]
	if contract == nil {
		return refusal("", "no schema describes events of type %q", kind)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		return &offer.Fault{Reason: offer.ReasonSchemaInvalid, Detail: "payload_malformed", Message: err.Error()}
	}
	var invalid *jsonschema.ValidationError
	if err = contract.Validate(doc); !errors.As(err, &invalid) {
		return nil
	}
	for len(invalid.Causes) > 0 {
		invalid = invalid.Causes[0]
	}
	pointer := ""
	for _, token := range invalid.InstanceLocation {
		pointer += "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(token)
	}
	return refusal(pointer, "%s", invalid.ErrorKind.LocalizedString(message.NewPrinter(language.English)))
}
