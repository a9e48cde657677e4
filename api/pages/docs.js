// The REST documentation: Swagger UI over /openapi.json. Its files come from the coordinator, as do all others.

// Swagger UI writes descriptions, which it has sanitized, as HTML. The content policy still keeps scripts out of it.
if (window.trustedTypes) {
  window.trustedTypes.createPolicy("default", { createHTML: (text) => text });
}

window.SwaggerUIBundle({
  url: "/openapi.json",
  dom_id: "#docs",
  deepLinking: false,
  persistAuthorization: false,
  validatorUrl: null,
});
