//! Turns the tables of `files` into descriptions as protobuf has them.

use prost_types::field_descriptor_proto::{Label, Type};
use prost_types::{
    DescriptorProto, EnumDescriptorProto, EnumValueDescriptorProto, FieldDescriptorProto,
    FileDescriptorProto, MessageOptions, MethodDescriptorProto, OneofDescriptorProto, ServiceDescriptorProto,
};

/// One `.proto` file.
pub(super) struct File {
    pub(super) name: &'static str,
    pub(super) package: &'static str,
    pub(super) imports: &'static [&'static str],
    pub(super) messages: &'static [Message],
    pub(super) enums: &'static [Enum],
    pub(super) services: &'static [Service],
}

/// A message.
pub(super) struct Message {
    pub(super) name: &'static str,
    pub(super) fields: &'static [Field],
    pub(super) messages: &'static [Message],
    pub(super) enums: &'static [Enum],
    /// The one `oneof`, if there is one.
    pub(super) oneof: Option<&'static str>,
    /// Whether it is an entry of a map.
    pub(super) is_map_entry: bool,
}

/// A field.
pub(super) struct Field {
    pub(super) name: &'static str,
    pub(super) number: i32,
    pub(super) kind: Kind,
    pub(super) is_repeated: bool,
    pub(super) in_oneof: bool,
}

/// What a field holds.
pub(super) enum Kind {
    /// A scalar.
    Scalar(Type),
    /// A message, by its full name with a dot before it.
    Message(&'static str),
    /// An enumeration, likewise.
    Enum(&'static str),
}

/// An enumeration.
pub(super) struct Enum {
    pub(super) name: &'static str,
    pub(super) values: &'static [(&'static str, i32)],
}

/// A service of unary methods: name, what it takes, what it gives.
pub(super) struct Service {
    pub(super) name: &'static str,
    pub(super) methods: &'static [(&'static str, &'static str, &'static str)],
}

pub(super) fn file(file: &File) -> FileDescriptorProto {
    FileDescriptorProto {
        name: Some(file.name.to_owned()),
        package: Some(file.package.to_owned()),
        dependency: file.imports.iter().map(|import| (*import).to_owned()).collect(),
        message_type: file.messages.iter().map(message).collect(),
        enum_type: file.enums.iter().map(enumeration).collect(),
        service: file.services.iter().map(service).collect(),
        syntax: Some("proto3".to_owned()),
        ..FileDescriptorProto::default()
    }
}

fn message(message: &Message) -> DescriptorProto {
    DescriptorProto {
        name: Some(message.name.to_owned()),
        field: message.fields.iter().map(field).collect(),
        nested_type: message.messages.iter().map(self::message).collect(),
        enum_type: message.enums.iter().map(enumeration).collect(),
        oneof_decl: message.oneof.iter().map(|name| oneof(name)).collect(),
        options: message
            .is_map_entry
            .then(|| MessageOptions { map_entry: Some(true), ..MessageOptions::default() }),
        ..DescriptorProto::default()
    }
}

fn oneof(name: &str) -> OneofDescriptorProto {
    OneofDescriptorProto { name: Some(name.to_owned()), options: None }
}

fn field(field: &Field) -> FieldDescriptorProto {
    let (kind, type_name) = match field.kind {
        Kind::Scalar(scalar) => (scalar, None),
        Kind::Message(name) => (Type::Message, Some(name.to_owned())),
        Kind::Enum(name) => (Type::Enum, Some(name.to_owned())),
    };
    let label = if field.is_repeated { Label::Repeated } else { Label::Optional };
    FieldDescriptorProto {
        name: Some(field.name.to_owned()),
        number: Some(field.number),
        label: Some(i32::from(label)),
        r#type: Some(i32::from(kind)),
        type_name,
        oneof_index: field.in_oneof.then_some(0),
        ..FieldDescriptorProto::default()
    }
}

fn enumeration(table: &Enum) -> EnumDescriptorProto {
    let value = |(name, number): &(&str, i32)| EnumValueDescriptorProto {
        name: Some((*name).to_owned()),
        number: Some(*number),
        options: None,
    };
    EnumDescriptorProto {
        name: Some(table.name.to_owned()),
        value: table.values.iter().map(value).collect(),
        ..EnumDescriptorProto::default()
    }
}

fn service(service: &Service) -> ServiceDescriptorProto {
    let method = |(name, takes, gives): &(&str, &str, &str)| MethodDescriptorProto {
        name: Some((*name).to_owned()),
        input_type: Some((*takes).to_owned()),
        output_type: Some((*gives).to_owned()),
        ..MethodDescriptorProto::default()
    };
    ServiceDescriptorProto {
        name: Some(service.name.to_owned()),
        method: service.methods.iter().map(method).collect(),
        options: None,
    }
}
